import './tags.css';
import type { ReactNode } from 'react';

import { shownName } from '../shown-name.ts';

/** Tags of a model, each followed by its action, if any. */
export function Tags({ tags, action }: { tags: readonly string[]; action?: (tag: string) => ReactNode }) {
  return (
    <span className="tags">
      {tags.map((tag) => (
        <span key={tag} className="tag">
          {shownName(tag)}
          {action?.(tag)}
        </span>
      ))}
    </span>
  );
}

import type { TrainingJobObject } from '@trainyard/sdk';

import { Notice } from '../components/notice.tsx';

/** What makes training wrong or empty without being an error, and what to do about it. */
export function Warnings({ warnings }: { warnings: TrainingJobObject['warnings'] }) {
  return warnings.map(({ code, message, suggestion }) => (
    <Notice key={code} tone="warn">
      <strong>{sentence(message)}</strong>
      <span className="soft">{sentence(suggestion)}</span>
    </Notice>
  ));
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;
}

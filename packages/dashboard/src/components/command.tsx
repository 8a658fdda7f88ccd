import './command.css';
import { CopyButton } from './copy-button.tsx';
import { shownName } from './shown-name.ts';

/** Something to run in a terminal, to be copied. */
export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <pre tabIndex={0} role="region" aria-label="Command">
        {shownName(text)}
      </pre>
      <CopyButton text={text} />
    </div>
  );
}

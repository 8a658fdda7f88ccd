import './command.css';
import { CopyButton } from './copy-button.tsx';
import { shownName } from './shown-name.ts';

/** A terminal command with a button to copy it. */
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

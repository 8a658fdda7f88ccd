import './command.css';
import { CopyButton } from './copy-button.tsx';

/** Something to run in a terminal, to be copied. */
export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <pre tabIndex={0} role="region" aria-label="Command">
        {text}
      </pre>
      <CopyButton text={text} />
    </div>
  );
}

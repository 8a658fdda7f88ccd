import './command.css';
import { CopyButton } from './copy-button.tsx';
import { shownName } from './shown-name.ts';

/**
 * A terminal command with a button to copy it.
 *
 * @param isWhole wraps a long text instead of scrolling it, with the button below
 */
export function Command({
  text,
  label = 'Command',
  isWhole = false,
}: {
  text: string;
  /** Accessible name. */
  label?: string;
  isWhole?: boolean;
}) {
  return (
    <div className="command" data-whole={isWhole || undefined}>
      <pre tabIndex={0} role="region" aria-label={label}>
        {shownName(text)}
      </pre>
      <CopyButton
        text={text}
        look={isWhole ? 'plain' : 'quiet'}
        name={label === 'Command' ? undefined : `Copy ${label.toLowerCase()}`}
      />
    </div>
  );
}

import './go-to-dialog.css';
import { Dialog } from '../components/actions/dialog.tsx';

const SHORTCUTS: readonly (readonly [keys: readonly string[], text: string])[] = [
  [['Ctrl', 'K'], 'Go to a page, a model, a job or a guide'],
  [['?'], 'Show this list'],
  [['Enter'], 'In the chat: send; with Shift a new line'],
  [['j', 'k'], 'In a rollout opened from a table: the next and the previous one'],
  [['n', 'p'], 'In the tokens of a rollout: the next and the previous trained turn'],
  [['←', '→'], 'In tokens and charts: the previous and the next place'],
  [['Enter'], 'In a chart: the rollouts of the place'],
  [['Esc'], 'Close a dialog or a menu'],
];

/** List of all keyboard shortcuts. */
export function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" isOpen onClose={onClose}>
      <dl className="shortcuts">
        {SHORTCUTS.map(([keys, text]) => (
          <div key={text} style={{ display: 'contents' }}>
            <dt>
              {keys.map((key) => (
                <span key={key}>
                  <kbd>{key}</kbd>{' '}
                </span>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

import './turns.css';
import type { Turn } from './conversation.ts';
import { shownName } from '../components/shown-name.ts';

const NAMES: Readonly<Record<string, string>> = {
  system: 'System',
  developer: 'Developer',
  user: 'User',
  assistant: 'Assistant',
  tool: 'Tool',
};

/** Messages one below the other, with reasoning and tool calls. */
export function Turns({ turns }: { turns: readonly Turn[] }) {
  return (
    <ol className="turns">
      {turns.map((turn) => (
        <li key={turn.item} className="turn" data-role={turn.isOfPrompt ? 'prompt' : turn.role}>
          <div className="turn-head">
            <strong>{NAMES[turn.role] ?? shownName(turn.role)}</strong>
            {turn.isSampled ? <small className="turn-tag">sampled</small> : null}
            {turn.isOfPrompt && turn.role === 'assistant' ? <small className="soft">example</small> : null}
            {turn.finishReason === null || turn.finishReason === 'stop' ? null : (
              <small className="soft">ended by {turn.finishReason.replaceAll('_', ' ')}</small>
            )}
          </div>
          {turn.reasoning === '' ? null : (
            <details className="turn-reasoning">
              <summary>Reasoning</summary>
              <p className="turn-text">{turn.reasoning}</p>
            </details>
          )}
          {turn.content === '' ? null : <p className="turn-text">{turn.content}</p>}
          {turn.calls.map((call, index) => (
            <div key={index} className="turn-call">
              <small className="soft">calls</small> <code>{shownName(call.name)}</code>
              <pre>{call.arguments}</pre>
            </div>
          ))}
          {turn.content === '' && turn.calls.length === 0 ? <p className="soft">(empty)</p> : null}
        </li>
      ))}
    </ol>
  );
}

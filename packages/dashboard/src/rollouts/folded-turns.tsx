import type { Turn } from './conversation.ts';
import { Turns } from './turns.tsx';

/** Messages with the first ones folded: examples, or the same in other prompts. */
export function FoldedTurns({ turns, numShared }: { turns: readonly Turn[]; numShared: number }) {
  const shared = turns.slice(0, numShared);
  const noun = shared.length === 1 ? 'message' : 'messages';
  const hasExamples = shared.some(({ role }) => role === 'assistant');
  return (
    <>
      {shared.length === 0 ? null : (
        <details className="turns-folded">
          <summary>
            {shared.length} {noun}
            {hasExamples ? ' of examples' : ' shared by all groups'}
          </summary>
          <Turns turns={shared} />
        </details>
      )}
      <Turns turns={turns.slice(numShared)} />
    </>
  );
}

import '../components/card.css';
import { useQuery } from '@tanstack/react-query';
import type { TrajectoryObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { rolloutQuery } from '../api/rollouts.ts';
import { formatValue } from '../components/numbers.ts';
import { conversationOf, questionOf, turnText } from '../rollouts/conversation.ts';

/** The question, the last reply and the reward of one rollout. */
export function RolloutCard({ title, trajectory }: { title: string; trajectory: TrajectoryObject }) {
  const { data } = useQuery(rolloutQuery(trajectory.id));
  const all = data === undefined ? null : (conversationOf(data.content ?? {})[0]?.turns ?? []);
  const question = all === null ? undefined : questionOf(all.filter(({ isOfPrompt }) => isOfPrompt));
  const reply = all?.findLast(({ isOfPrompt, role }) => !isOfPrompt && role === 'assistant');
  const turns = all === null ? null : [question, reply].filter((turn) => turn !== undefined);
  const numLeftOut = (all?.length ?? 0) - (turns?.length ?? 0);
  return (
    <article className="card rollout-card">
      <header>
        <h3>{title}</h3>
        <span className="soft">reward</span>
        <b>{formatValue(trajectory.reward)}</b>
        <Link href={`/rollouts/${encodeURIComponent(trajectory.id)}`} aria-label={`${title}: open rollout`}>
          Open rollout
        </Link>
      </header>
      {turns === null ? null : turns.length === 0 ? (
        <p className="soft">Its messages were removed with old data.</p>
      ) : (
        <>
          {numLeftOut > 0 ? (
            <small className="soft">
              {numLeftOut} more {numLeftOut === 1 ? 'message' : 'messages'}
            </small>
          ) : null}
          <dl className="rollout-words" tabIndex={0} aria-label={`Messages of the ${title.toLowerCase()}`}>
            {turns.map((turn) => (
              <div key={turn.item} data-role={turn.role}>
                <dt>{turn.role}</dt>
                <dd>{turnText(turn)}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
    </article>
  );
}

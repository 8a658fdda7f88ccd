import './group-view.css';
import { useQuery } from '@tanstack/react-query';
import type { TrajectoryObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { rolloutQuery } from '../api/rollouts.ts';
import { Button } from '../components/button.tsx';
import { Fault } from '../components/fault.tsx';
import { formatValue } from '../components/numbers.ts';
import { StatusDot } from '../components/status-dot.tsx';
import { conversationOf, promptTurns } from './conversation.ts';
import { outcomeWords } from './outcome-words.ts';
import type { GroupOfRollouts } from './rollout-groups.ts';
import { Turns } from './turns.tsx';

/** Maximum rollouts side by side; each is loaded by itself. */
const MAX_COLUMNS = 16;

/** The rollouts of a group side by side, the best first, below their prompt. */
export function GroupView({ group, onClose }: { group: GroupOfRollouts; onClose: () => void }) {
  const first = group.rollouts[0]!;
  const { data } = useQuery(rolloutQuery(first.id));
  const prompt = data?.content == null ? [] : promptTurns(conversationOf(data.content));
  const { long } = outcomeWords(group.reason, first.job_id === null);
  return (
    <section className="group-view" aria-label={`Group ${group.number}`}>
      <div className="group-head">
        <Button onClick={onClose}>‹ All groups</Button>
        <h2>Group {group.number}</h2>
        {group.reason === null ? null : <span>Dropped: {long}</span>}
      </div>
      {prompt.length === 0 ? null : (
        <details open>
          <summary>Prompt</summary>
          <Turns turns={prompt} />
        </details>
      )}
      <div className="group-columns" role="region" aria-label="Rollouts side by side" tabIndex={0}>
        {group.rollouts.slice(0, MAX_COLUMNS).map((rollout) => (
          <RolloutColumn key={rollout.id} rollout={rollout} />
        ))}
      </div>
      {group.rollouts.length > MAX_COLUMNS ? (
        <p className="soft">
          The {MAX_COLUMNS} best of {group.rollouts.length}.
        </p>
      ) : null}
    </section>
  );
}

function RolloutColumn({ rollout }: { rollout: TrajectoryObject }) {
  const { data, error } = useQuery(rolloutQuery(rollout.id));
  const words = outcomeWords(rollout.outcome, rollout.job_id === null);
  const histories = data?.content == null ? [] : conversationOf(data.content);
  const prompt = promptTurns(histories);
  return (
    <article className="group-column">
      <header>
        <h3>
          <Link href={`/rollouts/${rollout.id}`}>Reward {formatValue(rollout.reward)}</Link>
        </h3>
        <StatusDot tone={words.tone}>{words.short}</StatusDot>
        {rollout.advantage === null ? null : <small className="soft">advantage {formatValue(rollout.advantage)}</small>}
      </header>
      {error === null ? null : <Fault error={error} />}
      {data?.content === null ? <p className="soft">Its messages were removed with old data.</p> : null}
      <Turns turns={(histories[0]?.turns ?? []).slice(prompt.length)} />
    </article>
  );
}

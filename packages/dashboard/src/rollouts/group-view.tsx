import './group-view.css';
import { useQueries, useQuery } from '@tanstack/react-query';
import type { TrajectoryContent, TrajectoryObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { type UnappliedStatus, useUnappliedJobs } from '../api/jobs.ts';
import { rolloutQuery } from '../api/rollouts.ts';
import { Button } from '../components/button.tsx';
import { Fault } from '../components/fault.tsx';
import { formatValue } from '../components/numbers.ts';
import { StatusDot } from '../components/status-dot.tsx';
import { commonStart, conversationOf, numSharedTurns, promptTurns, questionOf, type Turn } from './conversation.ts';
import { outcomeWords } from './outcome-words.ts';
import type { GroupOfRollouts } from './rollout-groups.ts';
import { FoldedTurns } from './folded-turns.tsx';
import { Turns } from './turns.tsx';

/** Maximum rollouts side by side; each is loaded by itself. */
const MAX_COLUMNS = 16;
/** Other prompts of the job or log compared to find the messages that all share. */
const MAX_OTHERS = 3;

/** The rollouts of a group side by side, the best first, below their prompt. */
export function GroupView({
  group,
  groups,
  onClose,
}: {
  group: GroupOfRollouts;
  /** All groups of the step. */
  groups: readonly GroupOfRollouts[];
  onClose: () => void;
}) {
  const first = group.rollouts[0]!;
  const shown = group.rollouts.slice(0, MAX_COLUMNS);
  const own = useQueries({ queries: shown.map(({ id }) => rolloutQuery(id)) });
  // Replies without sampling data count as examples, and only some rollouts may have them.
  const prompt = commonStart(own.map(({ data }) => promptOf(data?.content)).filter(({ length }) => length > 0));
  const others = useQueries({ queries: otherPrompts(group, groups).map(rolloutQuery) });
  const otherTurns = others.map((other) => promptOf(other.data?.content)).filter(({ length }) => length > 0);
  const question = questionOf(prompt);
  const statuses = useUnappliedJobs(first.model_id);
  const status = statuses.get(first.job_id ?? '');
  const { long } = outcomeWords(group.reason, first.job_id === null, status);
  return (
    <section className="group-view" aria-label={`Group ${group.number}`}>
      <div className="group-head">
        <Button onClick={onClose}>‹ All groups</Button>
        <h2>Group {group.number}</h2>
        {status === 'failed' || status === 'cancelled' ? (
          <span>{long}</span>
        ) : group.reason === null ? null : (
          <span>Dropped: {long}</span>
        )}
      </div>
      {prompt.length === 0 ? null : (
        <details open>
          <summary>
            Prompt{question === undefined ? null : <b className="group-question">{question.content}</b>}
          </summary>
          <FoldedTurns turns={prompt} numShared={numSharedTurns(prompt, otherTurns)} />
        </details>
      )}
      <div className="group-columns" role="region" aria-label="Rollouts side by side" tabIndex={0}>
        {shown.map((rollout) => (
          <RolloutColumn key={rollout.id} rollout={rollout} status={status} numOfPrompt={prompt.length} />
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

function promptOf(content: TrajectoryContent['content'] | undefined): readonly Turn[] {
  return content == null ? [] : promptTurns(conversationOf(content));
}

/** Rollouts of other groups of the same job or log, each with another prompt. */
function otherPrompts(group: GroupOfRollouts, groups: readonly GroupOfRollouts[]): string[] {
  const first = group.rollouts[0]!;
  const ids = new Map<string | null, string>();
  for (const { rollouts } of groups) {
    const { prompt_digest: digest, id, job_id: job, log_id: log } = rollouts[0]!;
    const isOfSame = job === first.job_id && log === first.log_id;
    if (isOfSame && digest !== first.prompt_digest && !ids.has(digest)) ids.set(digest, id);
    if (ids.size === MAX_OTHERS) break;
  }
  return [...ids.values()];
}

function RolloutColumn({
  rollout,
  status,
  numOfPrompt,
}: {
  rollout: TrajectoryObject;
  status: UnappliedStatus | undefined;
  numOfPrompt: number;
}) {
  const { data, error } = useQuery(rolloutQuery(rollout.id));
  const words = outcomeWords(rollout.outcome, rollout.job_id === null, status);
  const histories = data?.content == null ? [] : conversationOf(data.content);
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
      <Turns turns={(histories[0]?.turns ?? []).slice(numOfPrompt)} />
    </article>
  );
}

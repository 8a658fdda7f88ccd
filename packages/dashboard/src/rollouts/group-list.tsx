import './group-list.css';
import './group-view.css';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useRef } from 'react';
import { Link } from 'wouter';

import { Button } from '../components/button.tsx';
import type { UnappliedStatus } from '../api/jobs.ts';
import { formatValue } from '../components/numbers.ts';
import { StatusDot } from '../components/status-dot.tsx';
import { outcomeWords } from './outcome-words.ts';
import type { GroupOfRollouts } from './rollout-groups.ts';

/** Maximum chips per group; opening the group shows all. */
const MAX_CHIPS = 24;

/** Groups of a step, each with its rollouts side by side, the best first. Renders only those in view. */
export function GroupList({
  groups,
  statuses,
  onOpen,
}: {
  groups: readonly GroupOfRollouts[];
  /** Jobs that made no step of the model. */
  statuses: ReadonlyMap<string, UnappliedStatus>;
  onOpen: (group: GroupOfRollouts) => void;
}) {
  const hasJobs = new Set(groups.map(({ jobId }) => jobId)).size > 1;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: groups.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 92,
    overscan: 6,
  });
  return (
    <div ref={scroller} className="group-list" role="region" aria-label="Groups" tabIndex={0}>
      <ul style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map(({ index, start }) => {
          const group = groups[index]!;
          return (
            <li
              key={group.key}
              ref={virtual.measureElement}
              data-index={index}
              style={{ transform: `translateY(${start}px)` }}
            >
              <GroupRow group={group} status={statuses.get(group.jobId ?? '')} hasJobs={hasJobs} onOpen={onOpen} />
            </li>
          );
        })}
      </ul>
    </div>
  );
}

function GroupRow({
  group,
  status,
  hasJobs,
  onOpen,
}: {
  group: GroupOfRollouts;
  status: UnappliedStatus | undefined;
  /** Groups of several jobs have the same numbers. */
  hasJobs: boolean;
  onOpen: (group: GroupOfRollouts) => void;
}) {
  const { number, jobId, rollouts, best, worst, mean, reason } = group;
  const isLog = jobId === null;
  const isLost = status === 'failed' || status === 'cancelled';
  const words = outcomeWords(reason, isLog, status);
  const spread = best - worst;
  const question = rollouts[0]?.question ?? null;
  return (
    <div className="group-row">
      <div className="group-head">
        <h2>
          Group {number}
          {question === null ? null : <span className="group-question">{question}</span>}
        </h2>
        {hasJobs && jobId !== null ? (
          <Link className="mono" href={`/jobs/${encodeURIComponent(jobId)}`}>
            job {jobId.slice(0, 8)}
          </Link>
        ) : null}
        <span className="soft">
          {rollouts.length} {rollouts.length === 1 ? 'rollout' : 'rollouts'}, {formatValue(worst)} to{' '}
          {formatValue(best)}, mean {formatValue(mean)}
        </span>
        {reason === null && !isLost ? null : (
          <span title={words.long}>
            <StatusDot tone={words.tone}>{isLost ? words.short : `dropped: ${words.short}`}</StatusDot>
          </span>
        )}
        <Button onClick={() => onOpen(group)} aria-label={`Group ${number} side by side`}>
          Side by side
        </Button>
      </div>
      <div className="group-chips">
        {rollouts.slice(0, MAX_CHIPS).map((rollout) => (
          <Link
            key={rollout.id}
            href={`/rollouts/${rollout.id}`}
            className="reward-chip"
            aria-label={`Rollout ${rollout.index} of group ${number}, reward ${formatValue(rollout.reward)}, ${outcomeWords(rollout.outcome, isLog, status).short}`}
          >
            <span>{formatValue(rollout.reward)}</span>
            <span
              className="reward-meter"
              aria-hidden="true"
              style={{ inlineSize: `${spread === 0 ? 100 : 8 + (92 * (rollout.reward - worst)) / spread}%` }}
            />
          </Link>
        ))}
        {rollouts.length > MAX_CHIPS ? <span className="soft">and {rollouts.length - MAX_CHIPS} more</span> : null}
      </div>
    </div>
  );
}

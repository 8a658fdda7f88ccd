import './rollout-list.css';
import type { TrajectoryObject } from '@trainyard/sdk';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, type MouseEvent, useEffect, useRef } from 'react';
import { useLocation } from 'wouter';

import { formatCount, formatValue } from '../components/numbers.ts';
import { StatusDot } from '../components/status-dot.tsx';
import { outcomeWords } from './outcome-words.ts';
import { shownName } from '../components/shown-name.ts';

const ROW_HEIGHT = 38;
const ROW_HEIGHT_WITH_EXCERPT = 60;
/** Distance from the end, in rows, at which more are loaded. */
const AHEAD = 300;

/** A list of any number of rollouts, one per line; renders only those in view. */
export function RolloutList({
  rollouts,
  hasMore,
  onEnd,
}: {
  rollouts: readonly TrajectoryObject[];
  hasMore: boolean;
  onEnd: () => void;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, navigate] = useLocation();
  const hasExcerpts = rollouts[0]?.excerpt !== undefined;
  const height = hasExcerpts ? ROW_HEIGHT_WITH_EXCERPT : ROW_HEIGHT;
  const virtual = useVirtualizer({
    count: rollouts.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 16,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last >= rollouts.length - AHEAD) onEnd();
  }, [hasMore, last, rollouts.length, onEnd]);
  return (
    <div className="rollout-list">
      <p className="soft">
        {formatCount(rollouts.length)}
        {hasMore ? ' so far; scroll for more' : ' in all'}
      </p>
      <div ref={scroller} className="rollout-scroll" role="region" aria-label="Rollouts" tabIndex={0}>
        <ul style={{ height: virtual.getTotalSize() }} onClick={(event) => follow(event, navigate)}>
          {items.map(({ index, start }) => (
            <li key={rollouts[index]!.id} style={{ height, transform: `translateY(${start}px)` }}>
              <RolloutLine rollout={rollouts[index]!} />
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}

/** One listener for all links: rows are added and removed by the dozen. */
function follow(event: MouseEvent, navigate: (href: string) => void): void {
  const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>('a[href]') : null;
  if (link === null || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  navigate(new URL(link.href).pathname);
}

const RolloutLine = memo(function RolloutLine({ rollout }: { rollout: TrajectoryObject }) {
  const { id, step, split, group, index, reward, outcome, excerpt, job_id: job } = rollout;
  const words = outcomeWords(outcome, job === null);
  return (
    <a href={`/rollouts/${id}`} className="rollout-line">
      <span className="rollout-reward">{formatValue(reward)}</span>
      <span className="rollout-place">
        step {step} · {shownName(split)} · group {group} · #{index}
      </span>
      <span className="rollout-outcome">
        <StatusDot tone={words.tone}>{words.short}</StatusDot>
      </span>
      {excerpt === undefined ? null : <span className="rollout-excerpt">{excerpt}</span>}
    </a>
  );
});

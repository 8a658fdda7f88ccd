import './rollout-table.css';
import type { TrajectoryObject } from '@trainyard/sdk';
import { useVirtualizer } from '@tanstack/react-virtual';
import { memo, type MouseEvent, useEffect, useMemo, useRef } from 'react';
import { useLocation } from 'wouter';

import { formatCount } from '../../components/numbers.ts';
import { shownName } from '../../components/shown-name.ts';
import { type RewardScale, rewardScale } from './reward-bar.tsx';
import type { RolloutColumn } from './rollout-columns.tsx';
import { keepPlace, keptPlace } from './kept-place.ts';
import type { RolloutView } from './rollout-view.ts';

const ROW_HEIGHT = 38;
/** Distance from the end, in rows, at which more are loaded. */
const AHEAD = 300;
/** Space between columns and at the edges, px. */
const GAP = 14;

/** Rollouts with words, one per line; any number, of which only those in view are rendered. */
export function RolloutTable({
  rollouts,
  columns,
  view,
  list,
  hasMore,
  onEnd,
  onSort,
}: {
  rollouts: readonly TrajectoryObject[];
  columns: readonly RolloutColumn[];
  view: RolloutView;
  /** Parameters of this list for the page of a rollout. */
  list: string;
  hasMore: boolean;
  onEnd: () => void;
  onSort: (sort: RolloutView['sort']) => void;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, navigate] = useLocation();
  const scale = useMemo(() => rewardScale(rollouts), [rollouts]);
  const virtual = useVirtualizer({
    count: rollouts.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 16,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && last >= rollouts.length - AHEAD) onEnd();
  }, [hasMore, last, rollouts.length, onEnd]);
  useReturnToPlace(scroller, rollouts.length > 0);
  const style = {
    '--columns': columns.map(({ width }) => width).join(' '),
    minWidth: columns.reduce((sum, { minWidth }) => sum + minWidth + GAP, GAP),
  };
  function open(event: MouseEvent) {
    const row = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-rollout]') : null;
    if (row === null || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    keepPlace(scroller.current?.scrollTop ?? 0);
    navigate(hrefOf(row.dataset['rollout']!, list));
  }
  return (
    <div className="rollout-list">
      <p className="soft">
        {formatCount(rollouts.length)}
        {hasMore ? ' so far; scroll for more' : ' in all'}
      </p>
      <div
        ref={scroller}
        className="rollout-scroll"
        role="table"
        aria-label="Rollouts"
        aria-rowcount={hasMore ? -1 : rollouts.length + 1}
        tabIndex={0}
      >
        <div role="rowgroup" className="rollout-head" style={style}>
          <div role="row" aria-rowindex={1} className="rollout-cells">
            {columns.map((column) => (
              <ColumnHead key={column.name} column={column} view={view} onSort={onSort} />
            ))}
          </div>
        </div>
        <div
          role="rowgroup"
          className="rollout-rows"
          style={{ ...style, height: virtual.getTotalSize() }}
          onClick={open}
        >
          {items.map(({ index, start }) => (
            <RolloutRow
              key={rollouts[index]!.id}
              rollout={rollouts[index]!}
              columns={columns}
              scale={scale}
              index={index}
              start={start}
              list={list}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

/** After Back, the table is where it was left. */
function useReturnToPlace(scroller: { readonly current: HTMLElement | null }, hasRows: boolean): void {
  const hasReturned = useRef(false);
  useEffect(() => {
    if (!hasRows || hasReturned.current) return;
    hasReturned.current = true;
    const place = keptPlace();
    if (place !== null) scroller.current?.scrollTo({ top: place });
  }, [scroller, hasRows]);
}

function ColumnHead({
  column: { title, sort, isNumber },
  view,
  onSort,
}: {
  column: RolloutColumn;
  view: RolloutView;
  onSort: (sort: RolloutView['sort']) => void;
}) {
  const isSorted = sort !== undefined && sort === view.sort;
  return (
    <span
      role="columnheader"
      data-number={isNumber === true ? '' : undefined}
      aria-sort={isSorted ? (view.order === 'asc' ? 'ascending' : 'descending') : undefined}
    >
      {sort === undefined || view.text !== '' ? (
        shownName(title)
      ) : (
        <button type="button" onClick={() => onSort(sort)}>
          {title}
          <span aria-hidden="true">{isSorted ? (view.order === 'asc' ? ' ↑' : ' ↓') : ''}</span>
        </button>
      )}
    </span>
  );
}

const RolloutRow = memo(function RolloutRow({
  rollout,
  columns,
  scale,
  index,
  start,
  list,
}: {
  rollout: TrajectoryObject;
  columns: readonly RolloutColumn[];
  scale: RewardScale;
  index: number;
  start: number;
  list: string;
}) {
  const [first, ...others] = columns;
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className="rollout-line rollout-cells"
      data-rollout={rollout.id}
      style={{ height: ROW_HEIGHT, transform: `translateY(${start}px)` }}
    >
      {first === undefined ? null : (
        <span role="cell" data-number={first.isNumber === true ? '' : undefined}>
          <a href={hrefOf(rollout.id, list)}>{first.cell(rollout, scale)}</a>
        </span>
      )}
      {others.map(({ name, isNumber, cell }) => (
        <span key={name} role="cell" data-number={isNumber === true ? '' : undefined}>
          {cell(rollout, scale)}
        </span>
      ))}
    </div>
  );
});

function hrefOf(id: string, list: string): string {
  return `/rollouts/${id}${list === '' ? '' : `?${new URLSearchParams({ list })}`}`;
}

import { useInfiniteQuery } from '@tanstack/react-query';
import type { TrajectoryObject } from '@trainyard/sdk';
import { useMemo } from 'react';
import { useSearchParams } from 'wouter';

import { useUnappliedJobs } from '../../api/jobs.ts';
import { useMorePages, useMoreWhile } from '../../api/more-pages.ts';
import { rolloutTableQuery } from '../../api/rollouts.ts';
import { ActionButton } from '../../components/actions/action-button.tsx';
import { Menu, MenuCheck } from '../../components/actions/menu.tsx';
import { Empty } from '../../components/empty.tsx';
import { Fault } from '../../components/fault.tsx';
import { changed } from '../../components/lists/changed.ts';
import { formatCount } from '../../components/numbers.ts';
import { shownName } from '../../components/shown-name.ts';
import { exportRollouts } from './export-rollouts.ts';
import { FilterChips } from './filter-chips.tsx';
import { columnsOf, shownColumns } from './rollout-columns.tsx';
import { RolloutTable } from './rollout-table.tsx';
import { readView, type RolloutView } from './rollout-view.ts';

/** Rows that a search loads before it waits for scrolling. */
const MIN_FOUND = 20;

/** Rollouts of all steps as a table, by the filters, order and columns of the address. */
export function AllRollouts({ modelId, newest }: { modelId: string; newest: TrajectoryObject }) {
  const [parameters, setParameters] = useSearchParams();
  const view = useMemo(() => readView(parameters), [parameters]);
  const { filter, text } = view;
  const list = useInfiniteQuery(rolloutTableQuery(modelId, filter));
  const { data, error, hasNextPage, isFetching } = list;
  const more = useMorePages(list);
  const rollouts = useMemo(() => data?.pages.flatMap((page) => page.data) ?? [], [data]);
  const statuses = useUnappliedJobs(modelId);
  const columns = useMemo(() => columnsOf(rollouts.slice(0, 1000), statuses), [rollouts, statuses]);
  const shown = useMemo(() => shownColumns(columns, view.columns), [columns, view.columns]);
  // The search reads a part of the messages at a time; load until there are enough results.
  useMoreWhile(list, text !== '' && rollouts.length < MIN_FOUND);
  const set = (changes: Readonly<Record<string, string | null>>) =>
    setParameters((before) => changed(before, changes), { replace: true });
  const toggle = (name: string, isShown: boolean) => {
    const names = shown.map((column) => column.name);
    set({ columns: (isShown ? [...names, name] : names.filter((other) => other !== name)).join(',') });
  };
  return (
    <>
      {error === null ? null : <Fault error={error} />}
      <div className="filter-chips">
        <FilterChips view={view} parameters={parameters} newest={newest} onChange={set} />
        <span className="spread" />
        <Menu label="Columns" look="quiet">
          {columns.map(({ name, title }) => (
            <MenuCheck
              key={name}
              isChecked={shown.some((column) => column.name === name)}
              onChange={(isShown) => toggle(name, isShown)}
            >
              {shownName(title)}
            </MenuCheck>
          ))}
        </Menu>
        {(['csv', 'jsonl'] as const).map((format) => (
          <ActionButton
            key={format}
            look="quiet"
            aria-label={`All of these rollouts as ${format.toUpperCase()}`}
            onAct={() => exportRollouts(modelId, filter, format)}
          >
            {format.toUpperCase()}
          </ActionButton>
        ))}
      </div>
      {text === '' ? null : (
        <p role="status">
          {isFetching
            ? `Searching … ${formatCount(rollouts.length)} found so far`
            : `${formatCount(rollouts.length)}${hasNextPage ? ' or more' : ''} rollouts contain “${shownName(text)}”`}
        </p>
      )}
      {rollouts.length > 0 ? (
        <RolloutTable
          rollouts={rollouts}
          columns={shown}
          view={view}
          list={location.search.replace(/^\?/, '')}
          hasMore={hasNextPage}
          onEnd={more}
          onSort={(sort) => set(sortChanges(view, sort))}
        />
      ) : isFetching || error !== null || text !== '' ? null : (
        <Empty title="No rollouts match">Remove a filter, or choose another value.</Empty>
      )}
    </>
  );
}

/** The other direction for the sorted column, else this column with the largest first. */
function sortChanges(view: RolloutView, sort: RolloutView['sort']): Record<string, string | null> {
  if (view.sort !== sort) return { sort: sort === 'position' ? null : sort, order: null };
  return { order: view.order === 'desc' ? 'asc' : null };
}

import { useInfiniteQuery } from '@tanstack/react-query';
import type { TrajectoryContent } from '@trainyard/sdk';
import { useMemo } from 'react';
import { Link, useLocation } from 'wouter';

import { useMoreWhile } from '../../api/more-pages.ts';
import { groupQuery, rolloutTableQuery } from '../../api/rollouts.ts';
import { formatCount } from '../../components/numbers.ts';
import { useKeys } from '../../components/actions/use-keys.ts';
import { readView } from './rollout-view.ts';
import { useAddress } from './use-address.ts';

/** Rollouts from the end of the loaded ones at which more are loaded. */
const AHEAD = 5;

/**
 * Links to the previous and next rollout of the list that this one was opened from, or of its group; also by
 * the keys K and J.
 */
export function Neighbours({
  rolloutId: id,
  inGroupOf,
}: {
  rolloutId: string;
  /** The rollout, or while it loads the one before, of the same list or group. */
  inGroupOf: TrajectoryContent;
}) {
  const parameters = useAddress();
  const [, navigate] = useLocation();
  const list = parameters.get('list');
  const filter = useMemo(() => (list === null ? null : readView(new URLSearchParams(list)).filter), [list]);
  const query = useInfiniteQuery(
    filter === null ? groupQuery(inGroupOf) : rolloutTableQuery(inGroupOf.model_id, filter),
  );
  const ids = useMemo(() => query.data?.pages.flatMap((page) => page.data.map((one) => one.id)) ?? [], [query.data]);
  const at = ids.indexOf(id);
  const isNearEnd = at < 0 || at >= ids.length - AHEAD;
  useMoreWhile(query, isNearEnd);
  const hrefOf = (other: string | undefined) => {
    if (at < 0 || other === undefined) return null;
    const view = new URLSearchParams(parameters);
    view.delete('with');
    return `/rollouts/${other}${view.size === 0 ? '' : `?${view}`}`;
  };
  const before = hrefOf(ids[at - 1]);
  const after = hrefOf(ids[at + 1]);
  // The entry of the list stays the one that Back leads to.
  const go = (href: string | null) => (href === null ? undefined : navigate(href, { replace: true }));
  useKeys({ j: () => go(after), k: () => go(before) });
  const what = list === null ? 'its group' : 'the list';
  return (
    <nav className="rollout-neighbours" aria-label={`Other rollouts of ${what}`}>
      {before === null ? null : (
        <Link href={before} replace aria-keyshortcuts="k" title="K">
          ‹ Previous
        </Link>
      )}
      {at < 0 ? null : (
        <span className="soft">
          {formatCount(at + 1)} of {formatCount(ids.length)}
          {query.hasNextPage ? '+' : ''} in {what}
        </span>
      )}
      {after === null ? null : (
        <Link href={after} replace aria-keyshortcuts="j" title="J">
          Next ›
        </Link>
      )}
    </nav>
  );
}

import { useInfiniteQuery } from '@tanstack/react-query';
import type { TrajectoryContent } from '@trainyard/sdk';
import { useEffect, useMemo } from 'react';
import { Link, useLocation } from 'wouter';

import { useMorePages } from '../../api/more-pages.ts';
import { rolloutTableQuery } from '../../api/rollouts.ts';
import { formatCount } from '../../components/numbers.ts';
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
  const { model_id: modelId, job_id: job, log_id: log, group } = inGroupOf;
  const filter = useMemo(
    () =>
      list === null
        ? { order: 'asc' as const, group, ...(job === null ? { log_id: log ?? '' } : { job_id: job }) }
        : readView(new URLSearchParams(list)).filter,
    [list, job, log, group],
  );
  const query = useInfiniteQuery(rolloutTableQuery(modelId, filter));
  const more = useMorePages(query);
  const ids = useMemo(() => query.data?.pages.flatMap((page) => page.data.map((one) => one.id)) ?? [], [query.data]);
  const at = ids.indexOf(id);
  const isNearEnd = at < 0 || at >= ids.length - AHEAD;
  useEffect(() => {
    if (isNearEnd && query.hasNextPage) more();
  }, [isNearEnd, query.hasNextPage, more]);
  const hrefOf = (other: string | undefined) => {
    if (at < 0 || other === undefined) return null;
    const view = new URLSearchParams(parameters);
    view.delete('with');
    return `/rollouts/${other}${view.size === 0 ? '' : `?${view}`}`;
  };
  const before = hrefOf(ids[at - 1]);
  const after = hrefOf(ids[at + 1]);
  useEffect(() => {
    const onKey = ({ key, target, altKey, ctrlKey, metaKey }: KeyboardEvent) => {
      const isTyping =
        target instanceof HTMLElement && target.closest('input, textarea, select, [role="menu"]') !== null;
      const href = key === 'j' ? after : key === 'k' ? before : null;
      if (href === null || isTyping || altKey || ctrlKey || metaKey) return;
      // The entry of the list stays the one that Back leads to.
      navigate(href, { replace: true });
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [before, after, navigate]);
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

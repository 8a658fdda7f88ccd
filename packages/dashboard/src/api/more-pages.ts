import { useCallback, useEffect } from 'react';

/** The used part of a paginated list. */
interface Pages {
  readonly hasNextPage: boolean;
  readonly isFetching: boolean;
  readonly isFetchNextPageError: boolean;
  readonly fetchNextPage: () => Promise<unknown>;
}

/**
 * Returns a function that loads the next page, if there is one and it is not loading. A refused page waits
 * until the list is refetched: callers in view would otherwise ask without end.
 */
export function useMorePages({ hasNextPage, isFetching, isFetchNextPageError, fetchNextPage }: Pages): () => void {
  const canAsk = hasNextPage && !isFetching && !isFetchNextPageError;
  return useCallback(() => {
    if (canAsk) void fetchNextPage();
  }, [canAsk, fetchNextPage]);
}

/** Loads one page after the other while more rows are wanted. @returns true until then */
export function useMoreWhile(pages: Pages, isWanted: boolean): boolean {
  const more = useMorePages(pages);
  const isDue = isWanted && pages.hasNextPage;
  useEffect(() => {
    if (isDue) more();
  }, [isDue, more]);
  return isDue;
}

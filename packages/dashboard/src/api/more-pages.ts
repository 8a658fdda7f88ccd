import { useCallback } from 'react';

/** A list that is read in pages, as far as it is used here. */
interface Pages {
  readonly hasNextPage: boolean;
  readonly isFetching: boolean;
  readonly isFetchNextPageError: boolean;
  readonly fetchNextPage: () => Promise<unknown>;
}

/**
 * Asks for the next page of a list, where there is one that is not on its way. One that was refused is not asked for once more before the list is: whoever is
 * called while something is in sight would ask without end.
 */
export function useMorePages({ hasNextPage, isFetching, isFetchNextPageError, fetchNextPage }: Pages): () => void {
  const canAsk = hasNextPage && !isFetching && !isFetchNextPageError;
  return useCallback(() => {
    if (canAsk) void fetchNextPage();
  }, [canAsk, fetchNextPage]);
}

import { QueryCache, QueryClient } from '@tanstack/react-query';

import { RequestFailure } from './request.ts';

/** A refusal stays one; a service that could not be asked is asked again. */
function shouldRetry(numFailures: number, error: Error): boolean {
  return numFailures < 3 && error instanceof RequestFailure && (error.status === 0 || error.status >= 500);
}

export const queryClient: QueryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: shouldRetry, staleTime: 5_000, refetchOnWindowFocus: true },
  },
  queryCache: new QueryCache({
    onError: (error) => {
      // The session has ended meanwhile: who is signed in is asked again, and the sign-in page follows from the answer.
      if (error instanceof RequestFailure && error.status === 401)
        void queryClient.invalidateQueries({ queryKey: ['session'] });
    },
  }),
});

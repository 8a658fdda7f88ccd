import { QueryCache, QueryClient } from '@tanstack/react-query';
import { AuthenticationError } from '@trainyard/sdk';

/** Answers of the service, by what was asked. The client of the SDK tries again by itself what may be tried again. */
export const queryClient: QueryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: 5_000, refetchOnWindowFocus: true, networkMode: 'always' },
  },
  queryCache: new QueryCache({
    onError: (error) => {
      // The session has ended meanwhile: who is signed in is asked again, and the sign-in page follows from the answer.
      if (error instanceof AuthenticationError) void queryClient.invalidateQueries({ queryKey: ['session'] });
    },
  }),
});

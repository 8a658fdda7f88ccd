import { QueryClient } from '@tanstack/react-query';

/** Answers of the service, by what was asked. The client of the SDK tries again by itself what may be tried again. */
export const queryClient: QueryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: 5_000, refetchOnWindowFocus: true, networkMode: 'always' },
  },
});

import { QueryClient } from '@tanstack/react-query';

/** Cache of answers, by request. The SDK's client already retries, so queries do not. */
export const queryClient: QueryClient = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: 5_000, refetchOnWindowFocus: true, networkMode: 'always' },
  },
});

import { Trainyard } from '@trainyard/sdk';

import { notingFetch } from './answering.ts';
import { queryClient } from './query-client.ts';

/** The service that the page came from, as the browser that is signed in. */
export const client: Trainyard = new Trainyard({
  baseUrl: location.origin,
  apiKey: null,
  timeoutMs: 60_000,
  fetch: async (...request) => {
    const response = await notingFetch(...request);
    // The session has ended meanwhile: who is signed in is asked again, and the sign-in page follows from the answer.
    if (response.status === 401) void queryClient.invalidateQueries({ queryKey: ['session'] });
    return response;
  },
});

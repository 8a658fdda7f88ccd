import { Trainyard } from '@trainyard/sdk';

import { notingFetch } from './answering.ts';
import { queryClient } from './query-client.ts';

/** Client for the service that served this page, with the browser's session. */
export const client: Trainyard = new Trainyard({
  baseUrl: location.origin,
  apiKey: null,
  timeoutMs: 60_000,
  fetch: async (...request) => {
    const response = await notingFetch(...request);
    // The session has ended. Reading it again leads to the sign-in page.
    if (response.status === 401) void queryClient.invalidateQueries({ queryKey: ['session'] });
    return response;
  },
});

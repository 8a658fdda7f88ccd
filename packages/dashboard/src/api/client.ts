import { Trainyard } from '@trainyard/sdk';

/** The service that the page came from, as the browser that is signed in. */
export const client: Trainyard = new Trainyard({ baseUrl: location.origin, apiKey: null, timeoutMs: 60_000 });

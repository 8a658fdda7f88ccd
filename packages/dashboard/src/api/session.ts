import { queryOptions } from '@tanstack/react-query';
import type { SessionObject } from '@trainyard/sdk';

import { client } from './client.ts';
import { queryClient } from './query-client.ts';

/** Who is signed in. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => client.sessions.retrieve({ signal }),
  staleTime: 60_000,
});

/** @param proof a key, or the code of a link @throws {AuthenticationError} when it is not valid */
export async function signIn(proof: { key: string } | { code: string }): Promise<void> {
  become(await client.sessions.create(proof));
}

export async function signOut(): Promise<void> {
  become(await client.sessions.delete());
}

/** The tabs of a browser, which have one session between them. */
const tabs = new BroadcastChannel('trainyard-session');
tabs.addEventListener('message', ({ data }: MessageEvent<SessionObject>) => isNow(data));

function become(session: SessionObject): void {
  isNow(session);
  tabs.postMessage(session);
}

/** Answers that somebody else was given are forgotten. */
function isNow(session: SessionObject): void {
  queryClient.setQueryData(sessionQuery.queryKey, session);
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
}

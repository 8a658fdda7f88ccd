import { queryOptions, useQuery } from '@tanstack/react-query';
import type { SessionObject } from '@trainyard/sdk';

import { client } from './client.ts';
import { queryClient } from './query-client.ts';

/** The signed-in key. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => client.sessions.retrieve({ signal }),
  staleTime: 60_000,
});

export type Scope = NonNullable<SessionObject['key']>['scopes'][number];

/** Returns true if the signed-in key may do what needs a scope; `admin` includes the others. */
export function useMay(scope: Scope): boolean {
  const scopes = useQuery(sessionQuery).data?.key?.scopes ?? [];
  return scopes.includes(scope) || scopes.includes('admin');
}

/** @param proof a key, or the code of a sign-in link @throws {AuthenticationError} if it is not valid */
export async function signIn(proof: { key: string } | { code: string }): Promise<void> {
  become(await client.sessions.create(proof));
}

export async function signOut(): Promise<void> {
  become(await client.sessions.delete());
}

/** Connects the tabs of a browser, which share one session. */
const tabs = new BroadcastChannel('trainyard-session');
tabs.addEventListener('message', ({ data }: MessageEvent<SessionObject>) => setSession(data));

function become(session: SessionObject): void {
  setSession(session);
  tabs.postMessage(session);
}

/** Sets the session and drops all other cached answers. */
function setSession(session: SessionObject): void {
  queryClient.setQueryData(sessionQuery.queryKey, session);
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
}

import { queryOptions } from '@tanstack/react-query';
import type { SessionObject } from '@trainyard/sdk';

import { queryClient } from './query-client.ts';
import { request } from './request.ts';

/** Who is signed in. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => request<SessionObject>('GET', '/session', { signal }),
  staleTime: 60_000,
});

/** @param proof a key, or the code of a link @throws {RequestFailure} 401 when it is not valid */
export async function signIn(proof: { key: string } | { code: string }): Promise<void> {
  const session = await request<SessionObject>('POST', '/session', { body: proof });
  become(session);
}

export async function signOut(): Promise<void> {
  const session = await request<SessionObject>('DELETE', '/session');
  become(session);
}

/** Answers that somebody else was given are forgotten. */
function become(session: SessionObject): void {
  queryClient.setQueryData(sessionQuery.queryKey, session);
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
}

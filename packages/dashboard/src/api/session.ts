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

/** Answers that somebody else was given are forgotten. */
function become(session: SessionObject): void {
  queryClient.setQueryData(sessionQuery.queryKey, session);
  queryClient.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionQuery.queryKey[0] });
}

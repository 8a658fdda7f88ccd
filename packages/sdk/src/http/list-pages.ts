import type { ListPage } from '@trainyard/protocol';

import type { CallOptions, Connection } from './connection.ts';
import { PagePromise } from './page.ts';

/** Pages of a list route, from `after` of the query on. */
export function listPages<Item extends { id: string }>(
  connection: Connection,
  path: string,
  query: { after?: string | undefined },
  options: CallOptions,
): PagePromise<Item> {
  return new PagePromise(query.after, async (after) => {
    return await connection.json<ListPage<Item>>('GET', path, { ...options, query: { ...query, after } });
  });
}

import type { ListPage } from '@trainyard/protocol';
import type { Page } from '@trainyard/store';

export function toListPage<Record, Item extends { id: string }>(
  page: Page<Record>,
  toItem: (record: Record) => Item,
): ListPage<Item> {
  const data = page.items.map(toItem);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: page.hasMore,
  };
}

/** Rows per page when a whole list is walked. */
const WALK_LIMIT = 1000;

/** All records of a paged list, read page by page. */
export async function* walkPages<Record extends { id: string }>(
  list: (query: { after: string | null; limit: number }) => Promise<Page<Record>>,
): AsyncGenerator<Record> {
  let after: string | null = null;
  for (;;) {
    const page: Page<Record> = await list({ after, limit: WALK_LIMIT });
    yield* page.items;
    after = page.items.at(-1)?.id ?? null;
    if (!page.hasMore || after === null) return;
  }
}

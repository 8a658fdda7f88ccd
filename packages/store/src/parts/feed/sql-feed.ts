import type { Access } from '../access.ts';
import type { Feed } from './feed.ts';

export function sqlFeed({ sql, tables }: Access): Feed {
  return {
    list: async (query) => await tables.feed.list(query),
    lastPosition: async () => await tables.feed.lastPosition(),
    watch: (wake) => sql.watchFeed(wake),
  };
}

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storeSuite } from '../../testing/store.suite.ts';
import { openSqliteStore } from '../../open-sqlite-store.ts';
import type { SqlStore } from '../../sql-store.ts';

storeSuite('SQLite', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-store-'));
  const handles: SqlStore[] = [];
  return {
    async open(options = {}) {
      const store = await openSqliteStore(join(directory, 'store.sqlite'), options);
      handles.push(store);
      return store;
    },
    async destroy() {
      for (const store of handles) await store.close();
      await rm(directory, { recursive: true });
    },
  };
});

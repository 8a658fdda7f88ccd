import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { storeSuite } from '../store.suite.ts';
import { SqliteStore } from './sqlite-store.ts';

storeSuite('SqliteStore', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-store-'));
  const handles: SqliteStore[] = [];
  return {
    async open(options = {}) {
      const store = await SqliteStore.open(join(directory, 'store.sqlite'), options);
      handles.push(store);
      return store;
    },
    async destroy() {
      for (const store of handles) await store.close();
      await rm(directory, { recursive: true });
    },
  };
});

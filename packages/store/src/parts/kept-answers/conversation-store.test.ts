import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { ConversationKey } from './conversations.ts';
import { StoreError } from '../../contract/errors.ts';
import type { BeforeUnpacking } from './kept-scope.ts';
import type { SqlResult, SqlRow } from '../../contract/sql.ts';
import { SqlStore } from '../../sql-store.ts';
import { MemoryDatabase, MemorySql } from '../../testing/memory-sql.ts';

const HOUR_MS = 3600 * 1000;

let now: number;
let sql: MemorySql;
let database: MemoryDatabase;
let store: SqlStore;
let key: ConversationKey;
beforeEach(async () => {
  now = Date.now();
  database = new MemoryDatabase();
  sql = new MemorySql(database);
  const limits = { maxBytes: 100_000 };
  store = new SqlStore(sql, { clock: () => now, conversations: limits, keptAnswers: limits });
  key = { entityId: (await store.keys.ensureEntity('acme')).id, project: '', id: 'conv' };
});
afterEach(async () => {
  vi.restoreAllMocks();
  await store.close();
});

const item = (id: string) => ({ id, item: '{}' });
const make = (id = key.id) => store.conversations.create({ ...key, id, metadata: '{}', items: [item('a')] });

test('a full room is counted once in many writes', async () => {
  const statements = vi.spyOn(database, 'run');
  const answer = { ...key, keyId: 'key', modelId: null, status: 'completed', answer: '{}', input: '[]' } as const;
  for (let index = 0; index < 400; index += 1) {
    await make(`conv_${index}`);
    await store.keptAnswers.keep({ ...answer, id: `resp_${index}`, itemIds: [] });
  }
  const counts = statements.mock.calls.filter(([statement]) => /sum\(.*size_bytes/.test(statement));
  expect(counts.length).toBeLessThan(150);
  for (const { sizeBytes } of [await store.conversations.count(), await store.keptAnswers.count()]) {
    expect(sizeBytes).toBeLessThanOrEqual(100_000);
    expect(sizeBytes).toBeGreaterThan(94_000);
  }
});

test.each(['store.disk_full', 'store.busy'] as const)('is read if its use cannot be written: %s', async (code) => {
  await make();
  now += 12 * HOUR_MS;
  const write = vi.spyOn(sql, 'transaction').mockRejectedValue(new StoreError(code, 'no'));
  expect(await store.conversations.readAll(key)).toEqual([item('a')]);
  expect(write).toHaveBeenCalledOnce();
  write.mockRestore();
});

test('is unknown if it is deleted while it is read, and empty if its items are', async () => {
  const { conversations } = store;
  const query = sql.query.bind(sql);
  const deletingFirst = (remove: () => Promise<unknown>) =>
    vi.spyOn(sql, 'query').mockImplementation(async (statement, parameters) => {
      if (statement.includes('from conversation_items')) {
        vi.restoreAllMocks();
        await remove();
      }
      return await query(statement, parameters);
    });
  const reads = {
    readAll: () => conversations.readAll(key),
    listItems: () => conversations.listItems(key, { limit: 1, isAscending: true }),
  };
  for (const [name, read] of Object.entries(reads)) {
    await make();
    deletingFirst(() => conversations.delete(key));
    expect(await read(), name).toBeNull();
    await make();
    deletingFirst(() => conversations.deleteItem(key, 'a'));
    expect(await read(), name).toEqual(name === 'readAll' ? [] : { items: [], hasMore: false });
    await conversations.delete(key);
  }
});

test('no text is read before there is room for it', async () => {
  const { conversations, keptAnswers } = store;
  const text = JSON.stringify(Array.from({ length: 500 }, () => crypto.randomUUID()));
  await conversations.create({ ...key, metadata: '{}', items: [{ id: 'a', item: text }] });
  const answer = { ...key, keyId: 'key', modelId: null, status: 'completed', answer: text, input: text } as const;
  await keptAnswers.keep({ ...answer, id: 'resp', itemIds: ['msg'] });
  const { length } = text;
  const reads: Record<string, [number, (before: BeforeUnpacking) => Promise<unknown>]> = {
    readAll: [length, (before) => conversations.readAll(key, { before })],
    listItems: [length, (before) => conversations.listItems(key, { limit: 1, isAscending: true }, before)],
    findItem: [length, (before) => conversations.findItem(key, 'a', before)],
    findItemOfAny: [length, (before) => conversations.findItemOfAny(key, 'a', before)],
    'find an answer': [length, (before) => keptAnswers.find(key, 'resp', before)],
    'find an answer and its input': [2 * length, (before) => keptAnswers.findWhole(key, 'resp', before)],
    'find an item of an answer': [length, (before) => keptAnswers.findItem(key, 'msg', before)],
  };
  const statements = vi.spyOn(database, 'run');
  for (const [name, [numBytes, read]] of Object.entries(reads)) {
    statements.mockClear();
    const sizes: number[] = [];
    const refuse = async (bytes: number) => {
      sizes.push(bytes);
      throw new Error('no room');
    };
    await expect(read(refuse), name).rejects.toThrow('no room');
    const values = statements.mock.results.flatMap(({ value }) =>
      (value as SqlResult<SqlRow>).rows.flatMap((row) => Object.values(row)),
    );
    const numRead = values.reduce<number>(
      (sum, value) => sum + (value instanceof Uint8Array ? value.byteLength : 0),
      0,
    );
    expect(numRead, name).toBeLessThan(100);
    expect(sizes, name).toEqual([numBytes]);
    expect(await read(async () => {}), name).not.toBeNull();
  }
});

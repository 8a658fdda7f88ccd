import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, it } from 'vitest';

import type { Queries } from './contract/sql.ts';
import { SqliteSql } from './drivers/sqlite/sqlite-sql.ts';
import { SqlStore } from './sql-store.ts';
import { addModel, claim, train } from './testing/harness.ts';

/** Statements of each transaction. */
let numStatements: number[];
let store: SqlStore;
let directory: string;
beforeEach(async () => {
  numStatements = [];
  directory = await mkdtemp(join(tmpdir(), 'trainyard-store-'));
  const sql = new SqliteSql(join(directory, 'store.sqlite'));
  const transaction = sql.transaction.bind(sql);
  sql.transaction = (body, options) =>
    transaction((queries) => {
      const turn = numStatements.push(0) - 1;
      const query: Queries['query'] = (statement, parameters) => {
        numStatements[turn]! += 1;
        return queries.query(statement, parameters);
      };
      return body({ query });
    }, options);
  store = new SqlStore(sql);
});
afterEach(async () => {
  await store.close();
  await rm(directory, { recursive: true });
});

/**
 * Returns the largest number of statements in a transaction. Every writer of every process waits for it, and
 * each statement is a network round trip.
 */
async function most(work: () => Promise<unknown>): Promise<number> {
  numStatements.length = 0;
  await work();
  return Math.max(...numStatements);
}

it('steps that are not there cost nothing when they are deleted, however many and however large', async () => {
  const { id } = await addModel(store);
  for (let step = 1; step <= 3; step += 1) await train(store, id, `checkpoints/${step}`);
  const named = [...Array.from({ length: 100_000 }, (_, index) => 100_000 - index), 1e300, 2 ** 63];
  const deleting = async () => {
    const deleted = await store.checkpoints.delete(id, named);
    expect(deleted).toMatchObject({
      deletedCount: 3,
      directoryKeys: ['checkpoints/1', 'checkpoints/2', 'checkpoints/3'],
    });
    expect(deleted.notFoundSteps).toHaveLength(named.length - 3);
  };
  expect(await most(deleting)).toBeLessThan(10);
});

it('many checkpoints go with few statements, by themselves and with their model', async () => {
  const { id } = await addModel(store);
  for (let step = 1; step <= 120; step += 1) await train(store, id, `checkpoints/${step}`);
  const half = Array.from({ length: 60 }, (_, index) => 1 + index);
  expect(await most(() => store.checkpoints.delete(id, half))).toBeLessThan(10);
  expect(await most(() => store.models.delete(id))).toBeLessThan(20);
});

it('outcomes of many trajectories are written in parts, before their event', async () => {
  const { id: modelId } = await addModel(store);
  const rewards = Array.from({ length: 60 }, () => Array.from({ length: 200 }, (_, index) => index));
  const queued = () => store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups', rewards });
  expect(await most(queued)).toBeLessThan(300);
  const { id, fencingToken } = await claim(store);
  const writeOutcomes = (outcome: string) =>
    store.jobs.appendEvent(id, fencingToken, {
      type: 'training_started',
      data: {},
      dedupeKey: 'training_started',
      outcomes: rewards.map((group) => group.map((_, index) => ({ outcome, advantage: index }))),
    });
  expect(await most(() => writeOutcomes('trained'))).toBeLessThan(120);
  // Reported once, also by the worker that continues the job.
  await writeOutcomes('context_only');
  let after: string | null = null;
  let numTold = 0;
  do {
    const page = await store.trajectories.list({ modelId, limit: 1000, after });
    for (const { outcome, advantage, trajectoryIndex } of page.items)
      if (outcome === 'trained' && advantage === trajectoryIndex) numTold += 1;
    after = page.hasMore ? page.items.at(-1)!.id : null;
  } while (after !== null);
  expect(numTold).toBe(12_000);
});

it('traces of many trajectories are written some at a time', async () => {
  const { id: modelId } = await addModel(store);
  const rewards = [Array.from({ length: 500 }, (_, index) => index)];
  await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups', rewards });
  const { id, fencingToken } = await claim(store);
  const traces = rewards[0]!.map((trajectoryIndex) => ({
    groupIndex: 0,
    trajectoryIndex,
    trace: Uint8Array.of(trajectoryIndex % 256),
  }));
  const step = { type: 'gradient_step', data: {}, traces: { gradientStep: 0, traces, maxBytes: 1e6 } } as const;
  expect(await most(() => store.jobs.appendEvent(id, fencingToken, step))).toBeLessThan(40);
  expect(await store.trajectories.listTraces(`${id}.0.499`)).toEqual([
    { gradientStep: 0, trace: Uint8Array.of(499 % 256) },
  ]);
});

it('many metrics are counted in one look at their names', async () => {
  const { id: modelId } = await addModel(store);
  const metrics = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`val/${index}`, index]));
  const counts = { numGroups: 1, numTrajectories: 1, numExceptions: 0 };
  const recorded = () => store.trajectories.recordLog({ modelId, split: 'val', blobKey: 'logs/1', ...counts, metrics });
  expect(await most(recorded)).toBeLessThan(60);
  expect(await store.runs.listSeries(modelId)).toHaveLength(2_000);
});

it('many deleted models go some at a time', async () => {
  for (let index = 0; index < 25; index += 1) await store.models.delete((await addModel(store, `model ${index}`)).id);
  const purged = async () => {
    expect(await store.purgeExpired(Date.now() + 8 * 24 * 3_600_000)).toMatchObject({ numModels: 25 });
  };
  expect(await most(purged)).toBeLessThan(100);
});

it('many items and answers are written and removed with few statements', async () => {
  const { id: entityId } = await store.keys.ensureEntity('acme');
  const key = { entityId, project: '', id: 'conv' };
  const item = (id: number | string) => ({ id: `item_${id}`, item: '{}' });
  const items = Array.from({ length: 10_000 }, (_, index) => item(index));
  await store.conversations.create({ ...key, metadata: '{}', items: [item(7_777)] });
  expect(await most(() => store.conversations.append({ conversation: key, items }))).toBeLessThan(250);
  const ids = (await store.conversations.readAll(key))!.map(({ id }) => id);
  expect(ids.slice(1).filter((id, index) => id !== items[index]!.id)).toEqual([
    expect.stringMatching(/^item_[0-9a-f]{32}$/),
  ]);

  const answer = { entityId, project: '', id: 'resp', keyId: 'key', modelId: null, status: 'completed' } as const;
  const texts = { answer: '{}', input: '[]', itemIds: items.map(({ id }) => id) };
  expect(await most(() => store.keptAnswers.keep({ ...answer, ...texts }))).toBeLessThan(120);
  expect(await store.keptAnswers.findItem(answer, 'item_9999')).not.toBeNull();

  for (let index = 0; index < 300; index += 1) {
    await store.conversations.create({ ...key, id: `conv_${index}`, metadata: '{}', items: [] });
    await store.keptAnswers.keep({ ...answer, ...texts, id: `resp_${index}`, itemIds: [] });
  }
  store.conversations.limits.maxBytes = 10_000;
  const turn = { conversation: { ...key, id: 'conv_0' }, items: [item('last')] };
  expect(await most(() => store.conversations.append(turn))).toBeLessThan(20);
  expect((await store.conversations.count()).numConversations).toBeLessThan(20);
  expect(await most(() => store.purgeExpired(Date.now() + 48 * 3_600_000))).toBeLessThan(80);
  expect(await store.conversations.count()).toMatchObject({ numConversations: 0 });
  expect(await store.keptAnswers.count()).toMatchObject({ numAnswers: 0 });
});

it('others get a turn between the transactions that remove expired rows', async () => {
  const { id: entityId } = await store.keys.ensureEntity('acme');
  const scope = { entityId, project: '' };
  const items = Array.from({ length: 5_000 }, (_, index) => ({ id: `item_${index}`, item: '{}' }));
  for (const id of ['a', 'b']) await store.conversations.create({ ...scope, id, metadata: '{}', items });
  const answer = {
    ...scope,
    keyId: 'key',
    modelId: null,
    status: 'completed',
    answer: '{}',
    input: '[]',
    itemIds: [],
  } as const;
  for (let index = 0; index < 501; index += 1) await store.keptAnswers.keep({ ...answer, id: `resp_${index}` });
  numStatements.length = 0;
  const seen = new Set<number>();
  let timer = setImmediate(function look() {
    seen.add(numStatements.length);
    timer = setImmediate(look);
  });
  await store.purgeExpired(Date.now() + 48 * 3_600_000);
  clearImmediate(timer);
  expect(await store.conversations.count()).toMatchObject({ numConversations: 0 });
  // Two transactions for the answers and two for the conversations.
  expect(seen.size).toBeGreaterThanOrEqual(4);
});

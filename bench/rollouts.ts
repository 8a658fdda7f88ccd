/**
 * Time to list rollouts of a model with 100,000, by every filter and order, on SQLite and PostgreSQL:
 * `npm run bench -- rollouts [--rounds N]`.
 *
 * Milliseconds of a page of 100: the median of the rounds and the largest. The aim is 200 ms.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { openStore, type StoreLocation, type TrajectoryQuery } from '@trainyard/store';
import { createSchema, PostgresCluster } from '@trainyard/store/testing';

import { findPostgres } from '../scripts/lib/postgres.mjs';
import { machineLine, otherCores, sampleCpu } from './machine.ts';
import { median } from './percentile.ts';

const NUM_JOBS = 100;
const NUM_GROUPS = 125;
const GROUP_SIZE = 8;
const AIM_MS = 200;

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' } } });
const QUERIES: Readonly<Record<string, Omit<TrajectoryQuery, 'modelId'>>> = {
  'newest first': { order: 'desc' },
  'best first': { sort: 'reward', order: 'desc' },
  'longest first': { sort: 'num_tokens', order: 'desc' },
  'most turns first': { sort: 'num_turns', order: 'desc' },
  'one step': { step: 50, split: 'train' },
  'a range of rewards': { minReward: 0.3, maxReward: 0.31, order: 'desc' },
  'a range without any': { minReward: 5, order: 'desc' },
  'a rare outcome': { outcome: 'too_long', order: 'desc' },
  'an outcome that none has': { outcome: 'none' },
  'cut off': { finishReason: 'length', order: 'desc' },
  'cut off, longest first': { finishReason: 'length', sort: 'num_tokens', order: 'desc' },
  'a rare outcome, best first': { outcome: 'too_long', sort: 'reward', order: 'desc' },
  'all filters of a split': {
    split: 'train',
    outcome: 'trained',
    minReward: 0.2,
    maxReward: 0.9,
    finishReason: 'stop',
    sort: 'num_tokens',
  },
  'one prompt': { promptDigest: '7'.padStart(32, '0') },
};

const directory = await mkdtemp(join(tmpdir(), 'trainyard-bench-rollouts-'));
const programs = findPostgres(process.env);
const postgres = programs === null ? null : await PostgresCluster.start(programs);
try {
  console.log(
    `${machineLine()}; ${NUM_JOBS * NUM_GROUPS * GROUP_SIZE} rollouts, pages of 100, milliseconds: median (largest)`,
  );
  const before = sampleCpu();
  const locations: Record<string, StoreLocation> = {
    SQLite: { kind: 'sqlite', path: join(directory, 'store.sqlite') },
    ...(postgres === null
      ? {}
      : { PostgreSQL: { kind: 'postgres' as const, url: await createSchema(postgres.url), maxConnections: 4 } }),
  };
  const measured = new Map<string, string[]>();
  let largest = 0;
  for (const [name, location] of Object.entries(locations)) {
    const store = await openStore(location);
    const modelId = await fill(store);
    for (const [title, query] of Object.entries(QUERIES)) {
      const times: number[] = [];
      for (let round = -1; round < Number(values.rounds); round++) {
        const begunAt = performance.now();
        await store.trajectories.list({ modelId, limit: 100, ...query });
        // The first round prepares statements and caches.
        if (round >= 0) times.push(performance.now() - begunAt);
      }
      largest = Math.max(largest, median(times));
      const text = `${name} ${median(times).toFixed(1)} (${Math.max(...times).toFixed(1)})`;
      measured.set(title, [...(measured.get(title) ?? []), text.padEnd(28)]);
    }
    await store.close();
  }
  for (const [title, texts] of measured) console.log(`${title.padEnd(28)} ${texts.join(' ')}`);
  const others = otherCores(before, sampleCpu());
  console.log(
    `largest median ${largest.toFixed(0)} ms: ${largest <= AIM_MS ? 'within' : 'above'} the aim of ${AIM_MS} ms`,
  );
  console.log(`other processes computed on ${others === null ? '?' : others.toFixed(2)} cores meanwhile`);
} finally {
  await postgres?.stop();
  await rm(directory, { recursive: true });
}

async function fill(store: Awaited<ReturnType<typeof openStore>>): Promise<string> {
  const { id: entityId } = await store.keys.ensureEntity('bench');
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };
  const made = await store.models.create({ entityId, project: 'p', name: 'm', baseModel: 'b', lora });
  if (made.kind !== 'created') throw new Error('the store is not empty');
  const modelId = made.model.id;
  const rewards = Array.from({ length: NUM_GROUPS }, (_, group) =>
    Array.from({ length: GROUP_SIZE }, (__, index) => ((group * 7 + index * 13) % 100) / 100),
  );
  const contents = rewards.map((group, number) =>
    group.map((_, index) => ({
      promptDigest: `${number}`.padStart(32, '0'),
      question: `What is ${number} times 17, and how do you know?`,
      reply: `I think that it is ${number * 17}, since ten times ${number} is ${number * 10}.`,
      numTurns: 1 + (index % 3),
      numTokens: 20 + ((number * 31 + index) % 200),
      finishReason: index === 7 ? 'length' : 'stop',
      metrics: { words: 12, is_valid: index % 2 },
    })),
  );
  const outcomes = rewards.map((group, number) =>
    group.map((reward, index) => ({
      outcome: number === 3 && index === 1 ? 'too_long' : 'trained',
      advantage: reward - 0.5,
    })),
  );
  for (let step = 0; step < NUM_JOBS; step++) {
    const job = await store.jobs.enqueue({
      modelId,
      kind: 'rl',
      config: {},
      dataKey: `groups/${step}`,
      rewards,
      contents,
    });
    const { fencingToken } = (await store.jobs.claim('bench', 60_000))!;
    await store.jobs.appendEvent(job!.id, fencingToken, { type: 'training_started', data: {}, outcomes });
    await store.jobs.succeed(job!.id, fencingToken, { directoryKey: null, digest: null, metrics: {} });
  }
  return modelId;
}

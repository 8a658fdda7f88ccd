/**
 * Cost of the store:   npm run bench -- store   (about a minute; `-- --against <another checkout>` compares, in turns)
 *
 * Each row is a part of a busy service's writes or reads, on a fresh SQLite file in the temporary folder (set
 * by `TMPDIR`). With another checkout both run the same piece one after the other, in alternating order; the
 * ratio is the median over the rounds, above 1 if this checkout is faster. The load of other processes is
 * printed with the figures.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { openSqliteStore, type Store } from '@trainyard/store';

import { machineLine, otherCores, sampleCpu } from './machine.ts';
import { median } from './percentile.ts';

const { values } = parseArgs({
  options: { against: { type: 'string' }, rounds: { type: 'string', default: '9' } },
});

type OpenStore = (path: string) => Promise<Store>;

interface Subject {
  readonly store: Store;
  readonly entityId: string;
  readonly modelId: string;
  readonly secret: string;
}

/** @returns the number of operations */
type Piece = (subject: Subject, round: number) => Promise<number>;

const PIECES: Readonly<Record<string, Piece>> = {
  'jobs: queued, claimed, 8 events, finished': async ({ store, modelId }, round) => {
    for (let number = 0; number < 5; number++) {
      await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: `groups/${round}-${number}` });
      const job = (await store.jobs.claim('bench', 60_000))!;
      for (let step = 0; step < 8; step++)
        await store.jobs.appendEvent(job.id, job.fencingToken, {
          type: 'gradient_step',
          data: { step },
          dedupeKey: `${step}`,
        });
      await store.jobs.succeed(job.id, job.fencingToken, { directoryKey: null, digest: null, metrics: {} });
    }
    return 5;
  },
  'answers recorded, 64 at a time': async ({ store, entityId, modelId }) => {
    const promptTokenIds = new Int32Array(200).fill(7);
    for (let batch = 0; batch < 8; batch++) {
      const written = Array.from({ length: 64 }, () => {
        const record = { answerId: crypto.randomUUID(), choiceIndex: 0, entityId, modelId, step: 1, digest: 'd' };
        const tokens = { promptTokenIds, tokenIds: new Int32Array(200), logprobs: new Float32Array(200) };
        return store.choiceRecords.add({ ...record, ...tokens });
      });
      await Promise.all(written);
      await store.choiceRecords.find(entityId, []);
    }
    return 8 * 64;
  },
  'usage of 64 requests of 8 keys, written': async ({ store, entityId }, round) => {
    for (let request = 0; request < 64; request++) {
      const usage = { keyId: `k${request % 8}`, entityId, project: null, model: 'm', kind: 'chat' as const };
      void store.usage.record({ ...usage, promptTokens: request, completionTokens: round });
    }
    await store.usage.sum({ entityId, from: Number.MAX_SAFE_INTEGER });
    return 64;
  },
  'looks of a request: key, model, checkpoint': async ({ store, modelId, secret }) => {
    for (let number = 0; number < 500; number++) {
      await store.keys.verify(secret);
      await store.models.get(modelId);
      await store.checkpoints.latest(modelId);
    }
    return 500;
  },
};

/** As in long runs. */
const NUM_TRAJECTORIES = 100_000;

/** Deletes a model with many trajectories, while another writer repeatedly requests its turn. */
async function deletion({ store, entityId }: Subject): Promise<string> {
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };
  const made = await store.models.create({ entityId, project: 'p', name: 'large', baseModel: 'b', lora });
  if (made.kind !== 'created') throw new Error('there is a large model already');
  const rewards = Array.from({ length: 125 }, () => Array.from({ length: 8 }, (_, index) => index / 8));
  const contents = rewards.map((group, index) =>
    group.map(() => ({
      promptDigest: `${index}`.padStart(32, '0'),
      question: `What is ${index} times 17?`,
      reply: 'I think that it is 289. '.repeat(8),
      numTurns: 1,
      numTokens: 50,
      finishReason: 'stop',
      metrics: { words: 12 },
    })),
  );
  for (let added = 0; added < NUM_TRAJECTORIES; added += 1000) {
    const log = { modelId: made.model.id, split: 'val', blobKey: `logs/${added}`, metrics: { 'val/reward': added } };
    await store.trajectories.recordLog({
      ...log,
      rewards,
      contents,
      numGroups: 125,
      numTrajectories: 1000,
      numExceptions: 0,
    });
  }
  const waits: number[] = [];
  let isOver = false;
  const begunAt = performance.now();
  const deleting = store.models.delete(made.model.id).finally(() => (isOver = true));
  while (!isOver) {
    const askedAt = performance.now();
    await store.keys.ensureEntity('bench');
    // The store answers within the turn, and the deletion continues in the next.
    await nextTurn();
    waits.push(performance.now() - askedAt);
  }
  await deleting;
  const seconds = (performance.now() - begunAt) / 1000;
  const longest = Math.max(...waits).toFixed(0);
  return `${seconds.toFixed(1)} s; others wrote ${waits.length} times meanwhile and waited ${longest} ms at most (median ${median(waits).toFixed(0)} ms)`;
}

const directory = await mkdtemp(join(tmpdir(), 'trainyard-bench-store-'));
try {
  const here = await subjectOf(openSqliteStore, 'here');
  const there = values.against === undefined ? null : await subjectOf(await openerOf(values.against), 'there');
  console.log(machineLine());
  const before = sampleCpu();
  for (const [name, piece] of Object.entries(PIECES)) {
    const rates: number[] = [];
    const ratios: number[] = [];
    for (let round = -1; round < Number(values.rounds); round++) {
      const mine = await rateOf(piece, here, round);
      const other = there === null ? null : await rateOf(piece, there, round);
      if (round < 0) continue; // the first round prepares statements and caches
      rates.push(mine);
      if (other !== null) ratios.push(mine / other);
    }
    const ratio = ratios.length === 0 ? '' : `; ${median(ratios).toFixed(2)} times as many as there (${span(ratios)})`;
    console.log(`${name.padEnd(44)} ${Math.round(median(rates))}/s${ratio}`);
  }
  console.log(`a model with ${NUM_TRAJECTORIES} trajectories deleted: ${await deletion(here)}`);
  const others = otherCores(before, sampleCpu());
  console.log(`other processes computed on ${others === null ? '?' : others.toFixed(2)} cores meanwhile`);
  await here.store.close();
  await there?.store.close();
} finally {
  await rm(directory, { recursive: true });
}

async function subjectOf(open: OpenStore, name: string): Promise<Subject> {
  const store = await open(join(directory, `${name}.sqlite`));
  const { id: entityId } = await store.keys.ensureEntity('bench');
  const { secret } = await store.keys.create({ entityId, name: 'bench', scopes: ['inference'] });
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };
  const made = await store.models.create({ entityId, project: 'p', name: 'm', baseModel: 'b', lora });
  if (made.kind !== 'created') throw new Error('the store is not empty');
  return { store, entityId, secret, modelId: made.model.id };
}

/** Opens the store of another checkout, which may have an older interface. */
async function openerOf(checkout: string): Promise<OpenStore> {
  const file = pathToFileURL(join(resolve(checkout), 'packages/store/src/index.ts')).href;
  const other = (await import(file)) as { openSqliteStore?: OpenStore; SqliteStore?: { open: OpenStore } };
  const open = other.openSqliteStore ?? ((path: string) => other.SqliteStore?.open(path));
  return open as OpenStore;
}

async function rateOf(piece: Piece, subject: Subject, round: number): Promise<number> {
  const begunAt = performance.now();
  const count = await piece(subject, round);
  return count / ((performance.now() - begunAt) / 1000);
}

function span(numbers: readonly number[]): string {
  return `${Math.min(...numbers).toFixed(2)}–${Math.max(...numbers).toFixed(2)}`;
}

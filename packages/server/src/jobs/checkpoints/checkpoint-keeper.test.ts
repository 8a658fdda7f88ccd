import { createHash, randomUUID } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { checkOwnBlobs, FolderBlobs, type Model, type SqlStore } from '@trainyard/store';
import { expect, onTestFinished, test } from 'vitest';

import { checkFolder } from '../../seams/integrity/check-folder.ts';
import { openTestStore } from '../../testing/test-store.ts';
import { CheckpointKeeper, type KeeperOptions } from './checkpoint-keeper.ts';
import { readKeepPolicy } from './keep-policy.ts';
import { restoreFiles } from './restore-files.ts';

const HOUR_MS = 3_600_000;
const FILES = {
  'adapter_config.json': '{}',
  'adapter_model.safetensors': 'weights',
  'adapter.gguf': 'weights again',
  digest: 'digest',
  'optimizer.safetensors': 'moments, twice as large',
};
const SIZE = 7 + 13 + 2 + 6;

async function openService() {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-keeper-'));
  const clock = { now: Date.UTC(2026, 0, 1) };
  const store = await openTestStore(directory, { clock: () => clock.now });
  const blobs = await FolderBlobs.open(join(directory, 'blobs'));
  onTestFinished(async () => {
    await blobs.close();
    await store.close();
    await rm(directory, { recursive: true });
  });
  await checkOwnBlobs(store, blobs);
  const retired: string[] = [];
  const logged: string[] = [];
  const keeperOf = (policy: string, options: Partial<KeeperOptions> = {}) =>
    new CheckpointKeeper({
      store,
      blobs,
      policy: readKeepPolicy(policy),
      binMs: 7 * 24 * HOUR_MS,
      retire: (digest) => void retired.push(digest),
      log: (line) => void logged.push(line),
      ...options,
    });
  const keep = async (policy: string, options?: Partial<KeeperOptions>) =>
    await keeperOf(policy, options).round(() => false);
  return { store, blobs, clock, retired, logged, keeperOf, keep };
}

async function addModel(store: SqlStore, name = 'agent'): Promise<Model> {
  const { id: entityId } = await store.keys.ensureEntity('acme');
  const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };
  const made = await store.models.create({ entityId, project: 'demo', name, baseModel: 'base', lora });
  if (made.kind !== 'created') throw new Error(made.kind);
  return made.model;
}

/** Adds steps an hour apart, each with files and a reward. */
async function train(
  { store, blobs, clock }: Pick<Awaited<ReturnType<typeof openService>>, 'store' | 'blobs' | 'clock'>,
  { id: modelId }: Model,
  rewards: readonly number[],
): Promise<string[]> {
  const keys: string[] = [];
  for (const reward of rewards) {
    clock.now += HOUR_MS;
    const staged = await blobs.stageDirectory();
    for (const [name, content] of Object.entries(FILES)) await writeFile(join(staged, name), content);
    const sums = Object.entries(FILES).map(([name, text]) => `${sha256(text)}  ${name}\n`);
    await writeFile(join(staged, 'SHA256SUMS'), sums.join(''));
    const key = `checkpoints/${randomUUID()}`;
    await store.files.announce(key);
    await blobs.commitDirectory(staged, key);
    await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: `groups/${randomUUID()}` });
    const job = (await store.jobs.claim('test', 60_000))!;
    await store.jobs.succeed(job.id, job.fencingToken, {
      directoryKey: key,
      digest: sha256(key),
      metrics: {},
      rolloutMetrics: { 'train/reward': reward },
    });
    keys.push(key);
  }
  // The step before the newest is kept for two minutes.
  clock.now += 180_000;
  return keys;
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

async function stepsOf(store: SqlStore, { id: modelId }: Model): Promise<number[]> {
  return (await store.checkpoints.list({ modelId, limit: 1000 })).items.map(({ step }) => step);
}

test('a round keeps the policy’s checkpoints, moves the rest to the bin, and removes optimizer states', async () => {
  const service = await openService();
  const { store, blobs, keep, retired, logged } = service;
  const model = await addModel(store);
  // A job's reward belongs to the step before it: step 2 is the best.
  const keys = await train(service, model, [0.1, 0.2, 0.9, 0.3, 0.4, 0.5]);
  await keep('last=2,best,optimizer=1');
  expect(await stepsOf(store, model)).toEqual([0, 2, 5, 6]);
  expect(new Set(await blobs.listDirectories('checkpoints/'))).toEqual(new Set([keys[1], keys[4], keys[5]]));
  expect(new Set((await blobs.listBin()).map(({ key }) => key))).toEqual(new Set([keys[0], keys[2], keys[3]]));
  expect(retired).toEqual([keys[0]!, keys[2]!, keys[3]!].map(sha256));
  expect(logged.filter((line) => line.includes('removed the checkpoint acme/demo/agent:step1'))).toHaveLength(1);

  const live = (await store.retention.listStates(model.id)).filter(({ removedAt }) => removedAt === null);
  expect(live.map(({ sizeBytes, optimizerBytes }) => [sizeBytes, optimizerBytes !== 0])).toEqual([
    [null, true],
    [expect.any(Number), false],
    [expect.any(Number), false],
    [expect.any(Number), true],
  ]);
  const older = (await blobs.localDirectory(keys[4]!))!;
  expect(await readdir(older)).not.toContain('optimizer.safetensors');
  await checkFolder(older, { digest: null, use: 'training', log: () => undefined });
  expect(await store.retention.isOptimizerDropped(keys[4]!)).toBe(true);
  expect(await store.retention.isOptimizerDropped(keys[5]!)).toBe(false);

  // A second round has nothing to do.
  logged.length = 0;
  await keep('last=2,best,optimizer=1');
  expect(logged).toEqual([]);
});

test('a round lists the checkpoints of a model once, and a mark that comes after that saves files and optimizer state', async () => {
  const service = await openService();
  const { store, blobs, keep } = service;
  const model = await addModel(store);
  const keys = await train(service, model, [0.1, 0.2, 0.3, 0.4]);
  let numListings = 0;
  const { retention, runs, clock, jobs, checkpoints, models } = store;
  const listStates: typeof retention.listStates = async (id) => {
    numListings += 1;
    return await retention.listStates(id);
  };
  // Jobs are read after the checkpoints were listed.
  const bestCheckpoint: typeof runs.bestCheckpoint = async (id) => {
    await retention.mark(id, [1, 3], true);
    return await runs.bestCheckpoint(id);
  };
  const others = { clock, jobs, checkpoints, files: store.files, models };
  const busy = { ...others, retention: { ...retention, listStates }, runs: { ...runs, bestCheckpoint } };
  await keep('last=2,optimizer=1', { store: busy });
  expect(numListings).toBe(1);
  expect(await stepsOf(store, model)).toEqual([0, 1, 3, 4]);
  const files = async (key: string) => await readdir((await blobs.localDirectory(key))!);
  for (const key of [keys[0]!, keys[2]!, keys[3]!]) expect(await files(key)).toContain('optimizer.safetensors');
});

test('a model that began with the weights of another leaves the optimizer state of that one', async () => {
  const service = await openService();
  const { store, blobs, keep } = service;
  const model = await addModel(store);
  const [key] = await train(service, model, [0.1]);
  const { entityId, project, baseModel, lora } = model;
  const warmStart = { kind: 'checkpoint', modelId: model.id, step: 1, source: 'acme/demo/agent:step1' } as const;
  const made = await store.models.create({ entityId, project, name: 'pupil', baseModel, lora, warmStart });
  if (made.kind !== 'created') throw new Error(made.kind);
  await train(service, made.model, [0.1, 0.2, 0.3]);
  await keep('last=1,optimizer=1');
  expect(await stepsOf(store, made.model)).toEqual([0, 3]);
  expect(await readdir((await blobs.localDirectory(key!))!)).toContain('optimizer.safetensors');
  expect(await store.retention.isOptimizerDropped(key!)).toBe(false);
});

test('with `all` nothing is removed, and sizes are measured', async () => {
  const service = await openService();
  const model = await addModel(service.store);
  await train(service, model, [0.1, 0.2, 0.3]);
  await service.keep('all');
  const sums = 5 * (64 + 3) + Object.keys(FILES).join('').length;
  expect(await service.store.retention.sum()).toEqual({
    numCheckpoints: 4,
    numMarked: 0,
    numUnmeasured: 0,
    sizeBytes: 3 * (SIZE + sums),
    optimizerBytes: 3 * FILES['optimizer.safetensors'].length,
  });
  expect(await service.blobs.listBin()).toEqual([]);
});

test('a removed step can be restored with its files for a day, and is then gone', async () => {
  const service = await openService();
  const { store, blobs, clock, keep } = service;
  const model = await addModel(store);
  const keys = await train(service, model, [0.1, 0.2, 0.3, 0.4]);
  await keep('last=1');
  expect(await stepsOf(store, model)).toEqual([0, 4]);
  clock.now += 23 * HOUR_MS;
  await keep('last=1');
  expect(await restoreFiles({ store, blobs }, model.id, [2, 4, 9])).toEqual({ present: [2, 4], restored: [2] });
  await store.retention.mark(model.id, [2], true);
  clock.now += HOUR_MS;
  await keep('last=1');
  expect(await stepsOf(store, model)).toEqual([0, 2, 4]);
  expect((await readdir((await blobs.localDirectory(keys[1]!))!)).toSorted()).toContain('adapter.gguf');
  expect(await blobs.listBin()).toEqual([]);
  expect(await restoreFiles({ store, blobs }, model.id, [1])).toEqual({ present: [], restored: [] });
});

test('of many removed steps the newest stay in the bin for a day, the others for an hour', async () => {
  const service = await openService();
  const model = await addModel(service.store);
  const keys = await train(service, model, [0.1, 0.2, 0.3, 0.4]);
  await service.keep('last=1', { maxRestorable: 2 });
  expect(await service.blobs.listBin()).toHaveLength(3);
  service.clock.now += HOUR_MS;
  await service.keep('last=1', { maxRestorable: 2 });
  expect(new Set((await service.blobs.listBin()).map(({ key }) => key))).toEqual(new Set([keys[1], keys[2]]));
});

test('the inputs of a waiting job stay until it has ended', async () => {
  const service = await openService();
  const { store, clock, keep } = service;
  const model = await addModel(store);
  await train(service, model, [0.1, 0.2, 0.3]);
  const job = await store.jobs.enqueue({
    modelId: model.id,
    kind: 'rl',
    config: { resolved: { klPenaltyReferenceStep: 1 } },
    dataKey: 'groups/waiting',
  });
  await store.jobs.pause(job!.id);
  clock.now += HOUR_MS;
  await keep('last=2');
  expect(await stepsOf(store, model)).toEqual([0, 1, 2, 3]);
});

test('blobs that another service has claimed are not touched', async () => {
  const service = await openService();
  const model = await addModel(service.store);
  await train(service, model, [0.1, 0.2, 0.3]);
  await service.blobs.putJson('places/another', {});
  await service.keep('last=1');
  await service.keeperOf('last=1').recentRound(() => false);
  expect(await stepsOf(service.store, model)).toEqual([0, 1, 2, 3]);
});

test('the round between looks only at models with new checkpoints', async () => {
  const service = await openService();
  const { store, keeperOf } = service;
  const [old, fresh] = [await addModel(store, 'old'), await addModel(store, 'fresh')];
  await train(service, old, [0.1, 0.2, 0.3]);
  await train(service, fresh, [0.1, 0.2, 0.3]);
  await keeperOf('last=1').recentRound(() => false);
  expect(await Promise.all([old, fresh].map((model) => stepsOf(store, model)))).toEqual([
    [0, 1, 2, 3],
    [0, 3],
  ]);
});

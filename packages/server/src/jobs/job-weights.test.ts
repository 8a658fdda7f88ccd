import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs, hashOf, type Model, type SqlStore } from '@trainyard/store';
import { resolveTrainingConfig } from '@trainyard/trainer';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { openTestStore } from '../testing/test-store.ts';
import { removeOptimizerState } from './checkpoints/checkpoint-sizes.ts';
import { jobWeights, optimizerWarning } from './job-weights.ts';

const FILES = ['adapter_config.json', 'adapter_model.safetensors', 'adapter.gguf', 'optimizer.safetensors', 'digest'];
const KEY = 'checkpoints/one';
const CONFIG = { resolved: resolveTrainingConfig({}) };

let directory: string;
let store: SqlStore;
let blobs: FolderBlobs;
let model: Model;
const logged: string[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'job-weights-'));
  store = await openTestStore(directory);
  blobs = await FolderBlobs.open(join(directory, 'blobs'));
  logged.length = 0;
  const { id: entityId } = await store.keys.ensureEntity('local');
  const lora = { rank: 2, alpha: 4, targets: ['q'], initSeed: 0 };
  const made = await store.models.create({ entityId, project: 'p', name: 'm', baseModel: 'base', lora });
  if (made.kind !== 'created') throw new Error('no model was made');
  ({ model } = made);
  const staged = await blobs.stageDirectory();
  for (const name of FILES) writeFileSync(join(staged, name), name.repeat(30));
  const { sha256: digest } = await hashOf(join(staged, 'adapter_model.safetensors'));
  await blobs.commitDirectory(staged, KEY);
  await store.jobs.enqueue({ modelId: model.id, kind: 'rl', config: {}, dataKey: 'groups/1' });
  const first = (await store.jobs.claim('test', 60_000))!;
  await store.jobs.succeed(first.id, first.fencingToken, { directoryKey: KEY, digest, metrics: {} });
  await store.jobs.enqueue({ modelId: model.id, kind: 'sft', config: {}, dataKey: 'groups/2' });
});
afterEach(async () => {
  await store.close();
  await blobs.close();
  await rm(directory, { recursive: true });
});

test.each(FILES)('a job that starts from a step with a damaged %s fails with the step and the file', async (name) => {
  const job = (await store.jobs.claim('test', 60_000))!;
  const weights = () => jobWeights({ store, blobs, log: (line) => logged.push(line) }, job, model);
  expect(await weights()).toMatchObject({ startFrom: KEY });
  // A folder of an earlier release had no digests: they are written, and logged once.
  expect(logged).toHaveLength(1);
  const path = join((await blobs.localDirectory(KEY))!, name);
  const bytes = readFileSync(path);
  bytes[3]! ^= 1;
  writeFileSync(path, bytes);
  await expect(weights()).rejects.toMatchObject({
    code: 'trainer.checkpoint_damaged',
    message: expect.stringContaining(`The files of \`local/p/m:step1\` are damaged: ${name} is damaged: `) as string,
  });
});

test('a job that starts from a step without its optimizer state restarts the optimizer, and warns', async () => {
  const { id: modelId } = model;
  const second = (await store.jobs.claim('test', 60_000))!;
  const next = { directoryKey: 'checkpoints/two', digest: 'two', metrics: {} };
  await store.jobs.succeed(second.id, second.fencingToken, next);
  expect(await store.retention.dropOptimizers(modelId, [1])).toEqual([KEY]);
  await store.checkpoints.delete(modelId, [2]);
  await store.jobs.enqueue({ modelId, kind: 'rl', config: CONFIG, dataKey: 'groups/3' });
  await removeOptimizerState(blobs, KEY);
  const job = (await store.jobs.claim('test', 60_000))!;
  const weights = await jobWeights({ store, blobs, log: (line) => logged.push(line) }, job, model);
  expect(weights).toMatchObject({ startFrom: KEY, withFreshOptimizer: true });
  expect(optimizerWarning(job, model, weights)).toMatchObject({ code: 'optimizer_fresh', value: 1 });
  // The state of a live job stays.
  expect(await store.retention.dropOptimizers(modelId, [1])).toEqual([]);
});

test('a job on rollouts gets the versions that these may be drawn with by one question, and starts without a warning', async () => {
  const supervised = (await store.jobs.claim('test', 60_000))!;
  const next = { directoryKey: 'checkpoints/two', digest: 'two', metrics: {} };
  await store.jobs.succeed(supervised.id, supervised.fencingToken, next);
  await store.checkpoints.delete(model.id, [2]);
  await store.jobs.enqueue({ modelId: model.id, kind: 'rl', config: CONFIG, dataKey: 'groups/3' });
  const job = (await store.jobs.claim('test', 60_000))!;
  const asked: string[] = [];
  const watched = new Proxy(store, {
    get(target, name) {
      const part = target[name as 'checkpoints'];
      return new Proxy(part, {
        get(_part, method) {
          asked.push(`${String(name)}.${String(method)}`);
          return part[method as 'list'];
        },
      });
    },
  });
  const weights = await jobWeights({ store: watched, blobs, log: () => {} }, job, model);
  const first = (await store.checkpoints.get(model.id, 1))!;
  expect(weights).toMatchObject({ startFrom: KEY, withFreshOptimizer: false });
  expect(weights.policyVersions).toEqual(new Map([[first.digest, KEY]]));
  expect(optimizerWarning(job, model, weights)).toBeNull();
  expect(asked).toEqual([...new Set(asked)]);
  expect(asked).not.toContain('checkpoints.list');
});

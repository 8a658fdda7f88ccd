import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs, StoreError } from '@trainyard/store';
import { type JobBase, resolveSftConfig } from '@trainyard/trainer';
import { BIGRAM_LORA } from '@trainyard/trainer/testing';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { BigramTraining } from '../../testing/schedules/scripted-hosts.ts';
import type { TrainingJobRequest } from '../process/messages.ts';

let root: string;
let blobs: FolderBlobs;
let training: BigramTraining;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'job-'));
  blobs = await FolderBlobs.open(join(root, 'blobs'));
  await blobs.putJsonLines('sft/data', [
    {
      messages: [
        { role: 'user', content: 'well?' },
        { role: 'assistant', content: 'yes' },
      ],
    },
    {
      messages: [
        { role: 'user', content: 'so?' },
        { role: 'assistant', content: 'no' },
      ],
    },
  ]);
  training = new BigramTraining({ blobs, workDirectory: join(root, 'work'), pass: async () => undefined });
});
afterEach(async () => {
  await blobs.close();
  await rm(root, { recursive: true });
});

const run = async (changes: Partial<JobBase> = {}) => {
  const job: TrainingJobRequest = {
    kind: 'sft',
    config: resolveSftConfig({ batchSize: 1, learningRate: 0.02 }, { maxSequenceLength: 256 }),
    heldOut: null,
    jobId: 'job',
    modelPath: '/bigram.gguf',
    dataKey: 'sft/data',
    lora: BIGRAM_LORA,
    startFrom: null,
    withFreshOptimizer: false,
    snapshots: 'job',
    output: 'checkpoints/one',
    seed: 0,
    keepsTraces: false,
    ...changes,
  };
  return await training.run(job, { signal: new AbortController().signal, onEvent: () => undefined });
};

test('blobs that are away while a version is written or read make a job wait, and not fail', async () => {
  const away = new StoreError('store.unavailable', 'the file system does not answer');
  vi.spyOn(blobs, 'commitDirectory').mockRejectedValueOnce(away);
  await expect(run()).rejects.toMatchObject({ code: 'store.unavailable', retry: 'wait' });
  const { digest } = await run();
  expect(digest).not.toBe(null);
  vi.spyOn(blobs, 'localDirectory').mockRejectedValueOnce(away);
  const second = { jobId: 'second', snapshots: 'second', startFrom: 'checkpoints/one', output: 'checkpoints/two' };
  await expect(run(second)).rejects.toMatchObject({ code: 'store.unavailable', retry: 'wait' });
  expect((await run(second)).numGradientSteps).toBe(2);
});

test('a version that is damaged or unknown fails it', async () => {
  await expect(run({ startFrom: 'checkpoints/none' })).rejects.toMatchObject({ retry: 'never' });
  vi.spyOn(blobs, 'commitDirectory').mockRejectedValueOnce(new StoreError('store.blob_corrupt', 'a bit is turned'));
  await expect(run()).rejects.toMatchObject({ code: 'store.blob_corrupt', retry: 'never' });
});

test('changed data fail the job with the name of their blob', async () => {
  const path = join(root, 'blobs', 'files', 'sft', 'data.jsonl.zst');
  const bytes = readFileSync(path);
  bytes[bytes.length - 6]! ^= 1;
  writeFileSync(path, bytes);
  await expect(run()).rejects.toMatchObject({
    code: 'store.blob_corrupt',
    retry: 'never',
    message: expect.stringContaining('blob sft/data') as string,
  });
});

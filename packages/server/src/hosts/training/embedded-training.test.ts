import { existsSync, readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs } from '@trainyard/store';
import {
  DEFAULT_LORA_CONFIG,
  resolveSftConfig,
  resolveTrainingConfig,
  type TrainerEvent,
  type TrainingConfigInput,
} from '@trainyard/trainer';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/trainer/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { tinyTraining } from '../../testing/tiny-training.ts';
import type { EmbeddedTraining } from './embedded-training.ts';
import type { TrainerHostOptions, TrainingJobRequest } from '../process/messages.ts';

// A real trainer host, on a random model with a vocabulary of bytes.
let root: string;
let blobs: FolderBlobs;
let training: EmbeddedTraining;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'training-'));
  writeTinyGguf(join(root, 'tiny.gguf'), TINY_ARCHITECTURES.llama);
  blobs = await FolderBlobs.open(join(root, 'blobs'));
  const turn = (content: string) => ({
    messages: [
      { role: 'user', content: 'say it' },
      { role: 'assistant', content },
    ],
  });
  await blobs.putJsonLines('sft/lines', ['yes', 'no', 'yes yes', 'never'].map(turn));
  const trajectory = (content: string, reward: number) => ({ messages_and_choices: turn(content).messages, reward });
  const groups = ['a', 'b'].map((word) => ({ trajectories: [trajectory(`${word} yes`, 1), trajectory(word, 0)] }));
  await blobs.putJsonLines('groups/g', groups);
  training = trainingWith({});
  await training.start();
});
function trainingWith(options: Partial<TrainerHostOptions>): EmbeddedTraining {
  return tinyTraining({ blobs, workDirectory: join(root, 'work') }, options);
}
afterAll(async () => {
  await training.close();
  await blobs.close();
  await rm(root, { recursive: true });
});

const base = (id: string, overrides: Partial<TrainingJobRequest> = {}) => ({
  jobId: id,
  modelPath: join(root, 'tiny.gguf'),
  lora: { ...DEFAULT_LORA_CONFIG, rank: 2 },
  startFrom: null,
  snapshots: id,
  snapshot: null,
  output: `checkpoints/${id}`,
  seed: 0,
  ...overrides,
});
const sft = (id: string, { epochs = 1, ...overrides }: Partial<TrainingJobRequest> & { epochs?: number } = {}) =>
  ({
    ...base(id, overrides),
    kind: 'sft',
    dataKey: 'sft/lines',
    config: resolveSftConfig({ learningRate: 1e-2, batchSize: 1, epochs }, { maxSequenceLength: 512 }),
  }) as TrainingJobRequest;
const rl = (id: string, config: TrainingConfigInput, overrides: Partial<TrainingJobRequest> = {}) =>
  ({
    ...base(id, overrides),
    kind: 'rl',
    dataKey: 'groups/g',
    config: resolveTrainingConfig({
      allowTrainingWithoutLogprobs: true,
      learningRate: 1e-2,
      maxSequenceLength: 512,
      ...config,
    }),
  }) as TrainingJobRequest;

async function run(job: TrainingJobRequest, onEvent: (event: TrainerEvent) => void = () => {}) {
  const { signal } = new AbortController();
  return await training.run(job, { signal, onEvent });
}

test('jobs go by keys: each commits its version before it is done, and another starts from it and compares with it', async () => {
  const first = await run(sft('first'));
  expect(first).toMatchObject({ numGradientSteps: 4, digest: expect.stringMatching(/^[0-9a-f]{64}$/) as string });
  expect(readdirSync((await blobs.localDirectory('checkpoints/first'))!)).toContain('adapter.gguf');
  expect(readdirSync(join(root, 'work', 'first'))).toEqual(['progress.json', 'step-3']);
  const config = { klPenaltyCoef: 0.1, klPenaltyReferenceStep: 1 };
  const startFrom = 'checkpoints/first';
  const second = await run(rl('second', config, { startFrom, referenceFrom: startFrom }));
  expect(second.metrics['kl_policy_ref']).toBe(0);
  expect(second.digest).not.toBe(first.digest);
  expect((await blobs.listDirectories()).toSorted()).toEqual(['checkpoints/first', 'checkpoints/second']);
});

test('a job that was cut off resumes from its snapshot, with the same result', async () => {
  // Long enough to be cut off after its first steps.
  const epochs = 5;
  const whole = await run(sft('whole', { epochs }));
  const controller = new AbortController();
  const cut = sft('cut', { epochs });
  const stopped = training.run(cut, {
    signal: controller.signal,
    onEvent: (event) => {
      if (event.kind === 'gradient_step' && event.index === 1) controller.abort();
    },
  });
  await expect(stopped).rejects.toMatchObject({ code: 'trainer.cancelled', retry: 'never' });
  expect(existsSync(join(root, 'work', 'cut', 'progress.json'))).toBe(true);
  expect(await blobs.localDirectory('checkpoints/cut')).toBe(null);
  expect((await run(cut)).digest).toBe(whole.digest);
});

test('an unsupported operation is rejected with its code and its retry advice', async () => {
  const missing = run(sft('missing', { startFrom: 'checkpoints/none' }));
  await expect(missing).rejects.toMatchObject({ code: 'trainer.checkpoint_unreadable', retry: 'never' });
  expect(await blobs.localDirectory('checkpoints/missing')).toBe(null);
});

test('bf16 products are requested at the start, not by the first job', async () => {
  const without = trainingWith({ oneDnnPath: '/nowhere/libdnnl.so.3' });
  await expect(without.start()).rejects.toThrow(/cannot start: cannot load oneDNN from \/nowhere\/libdnnl\.so\.3/);
  await without.close();
});

import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs } from '@trainyard/store';
import { FakeTinkerServer, SKYRL_0_4 } from '@trainyard/tinker/testing';
import {
  DEFAULT_LORA_CONFIG,
  OrtPolicyModel,
  readSafetensors,
  resolveSftConfig,
  type TrainerEvent,
} from '@trainyard/trainer';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/trainer/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { tinyTraining } from '../../testing/tiny-training.ts';
import type { EmbeddedTraining } from '../training/embedded-training.ts';
import type { TrainerHostOptions, TrainingJobRequest } from './messages.ts';

// A real trainer host; the remote server trains the same random model.
const LORA = { ...DEFAULT_LORA_CONFIG, rank: 2, alpha: 32 };
let root: string;
let modelPath: string;
let blobs: FolderBlobs;
let server: FakeTinkerServer;
const open: EmbeddedTraining[] = [];
const logged: string[] = [];

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'remote-'));
  modelPath = join(root, 'tiny.gguf');
  writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);
  blobs = await FolderBlobs.open(join(root, 'blobs'));
  const turn = (content: string) => ({
    messages: [
      { role: 'user', content: 'say it' },
      { role: 'assistant', content },
    ],
  });
  await blobs.putJsonLines('sft/lines', ['yes', 'no', 'yes yes', 'never'].map(turn));
  const policy = async (lora: typeof LORA) => await OrtPolicyModel.load({ modelPath, lora, numThreads: 1 });
  const made = await Promise.all(Array.from({ length: 12 }, () => policy(LORA)));
  server = await FakeTinkerServer.start(SKYRL_0_4, () => made.pop()!);
  logged.length = 0;
});
afterEach(async () => {
  for (const training of open.splice(0)) await training.close();
  await server.close();
  await blobs.close();
  await rm(root, { recursive: true });
});

async function trainingWith(options: Partial<TrainerHostOptions>): Promise<EmbeddedTraining> {
  const place = { blobs, workDirectory: join(root, 'work'), log: (line: string) => void logged.push(line) };
  const training = tinyTraining(place, options);
  open.push(training);
  await training.start();
  return training;
}

const remote = () =>
  ({
    url: server.url,
    profile: 'skyrl',
    baseModel: null,
    timeoutMs: 60_000,
    stateDirectory: join(root, 'trainer'),
  }) as const;

const sft = (id: string, overrides: Partial<TrainingJobRequest> = {}) =>
  ({
    jobId: id,
    modelPath,
    lora: LORA,
    startFrom: null,
    snapshots: id,
    snapshot: null,
    output: `checkpoints/${id}`,
    seed: 0,
    kind: 'sft',
    dataKey: 'sft/lines',
    config: resolveSftConfig({ learningRate: 1e-2, batchSize: 1 }, { maxSequenceLength: 512 }),
    ...overrides,
  }) as TrainingJobRequest;

async function run(training: EmbeddedTraining, job: TrainingJobRequest) {
  const events: TrainerEvent[] = [];
  const { signal } = new AbortController();
  const result = await training.run(job, { signal, onEvent: (event) => void events.push(event) });
  const losses = events.flatMap((event) => (event.kind === 'gradient_step' ? [event.metrics['loss']!] : []));
  return { result, losses };
}

test('a job on a remote server has the same losses as a local one, and its adapter comes back as a checkpoint', async () => {
  const there = await trainingWith({ remote: remote() });
  const first = await run(there, sft('first'));
  const folder = (await blobs.localDirectory('checkpoints/first'))!;
  expect(readdirSync(folder).toSorted()).toEqual([
    'SHA256SUMS',
    'adapter.gguf',
    'adapter_config.json',
    'adapter_model.safetensors',
    'digest',
    'metrics.json',
    'tinker.json',
  ]);
  expect(first.result.digest).toBe(readFileSync(join(folder, 'digest'), 'utf8').trim());
  expect(JSON.parse(readFileSync(join(folder, 'metrics.json'), 'utf8'))).toMatchObject({
    loss: first.result.metrics['loss'],
  });
  expect(logged.join('\n')).toContain('gradient recipe meanAdvantages and clipping measured');
  await expect.poll(() => server.numLoaded).toBe(0);

  const here = await trainingWith({});
  const expected = await run(here, sft('here'));
  const differences = first.losses.map((loss, i) => Math.abs(loss - expected.losses[i]!));
  console.log(`losses there differ from those here by at most ${Math.max(...differences).toExponential(1)}`);
  expect(Math.max(...differences)).toBeLessThan(1e-4);
  const weights = async (key: string) =>
    readSafetensors(join((await blobs.localDirectory(key))!, 'adapter_model.safetensors')).tensors;
  const [mine, theirs] = [await weights('checkpoints/here'), await weights('checkpoints/first')];
  const largest = [...mine].reduce(
    (max, [name, { data }]) =>
      data.reduce((most, value, i) => Math.max(most, Math.abs(value - theirs.get(name)!.data[i]!)), max),
    0,
  );
  console.log(`weights there differ from those here by at most ${largest.toExponential(1)}`);
  expect(largest).toBeLessThan(1e-3);

  // Continued there and, with fresh momentum, here.
  await run(there, sft('second', { startFrom: 'checkpoints/first' }));
  await run(here, sft('third', { startFrom: 'checkpoints/first' }));
  expect(readdirSync((await blobs.localDirectory('checkpoints/third'))!)).toContain('optimizer.safetensors');
});

test('a job waits for a server that does not answer, and foreign weights are refused with the reason', async () => {
  const training = await trainingWith({ remote: { ...remote(), url: 'http://127.0.0.1:59871' } });
  await expect(run(training, sft('waiting'))).rejects.toMatchObject({
    code: 'trainer.remote_unavailable',
    retry: 'wait',
  });
  const here = await trainingWith({});
  await run(here, sft('here'));
  const there = await trainingWith({ remote: remote() });
  await expect(run(there, sft('warm', { startFrom: 'checkpoints/here' }))).rejects.toMatchObject({
    code: 'trainer.config_invalid',
    message: expect.stringContaining('not trained by a Tinker server') as string,
  });
  await expect.poll(() => server.numLoaded).toBe(0);
});

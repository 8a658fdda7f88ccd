import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { FolderBlobs, type TrainingJob, type Model, type SqlStore, StoreError } from '@trainyard/store';
import { holdWriters } from '@trainyard/store/testing';
import { DEFAULT_LORA_CONFIG, type TrainerEvent, type TrainingResult } from '@trainyard/trainer';

import { BackendFailure } from '../../seams/faults/backend-failure.ts';
import { type TrainingBackend, TrainingRunError } from '../../hosts/training/embedded-training.ts';
import type { TrainingJobRequest } from '../../hosts/process/messages.ts';
import { readJobConfig } from '../../training-data/wire/training-config.ts';
import { TrainingWorker, type TrainingWorkerOptions } from './training-worker.ts';
import { openTestStore, releaseTestDatabase, testDatabase } from '../../testing/test-store.ts';

/** Starts each job, then waits: a test ends it, or its signal does. */
class ScriptedBackend implements TrainingBackend {
  readonly requests: TrainingJobRequest[] = [];
  isStopped = false;
  #running: { onEvent: (event: TrainerEvent) => void; ended: PromiseWithResolvers<TrainingResult> } | null = null;
  #started = Promise.withResolvers<TrainingJobRequest>();

  async run(
    job: TrainingJobRequest,
    options: { signal: AbortSignal; onEvent: (event: TrainerEvent) => void },
  ): Promise<TrainingResult> {
    const ended = Promise.withResolvers<TrainingResult>();
    this.isStopped = false;
    options.signal.addEventListener('abort', () => {
      this.isStopped = true;
      ended.reject(options.signal.reason as Error);
    });
    this.requests.push(job);
    this.#running = { onEvent: options.onEvent, ended };
    options.onEvent({
      kind: 'training_started',
      numGradientSteps: 2,
      data: { num_sequences: 2, num_groups_submitted: 3, num_groups_trainable: 1, dropped_groups: { too_long: 2 } },
    });
    await mkdir(join(directory, 'work', job.snapshots), { recursive: true });
    this.#started.resolve(job);
    return ended.promise;
  }

  /** The next job that starts. */
  async begun(): Promise<TrainingJobRequest> {
    const job = await this.#started.promise;
    this.#started = Promise.withResolvers();
    return job;
  }

  /** Reports the number of steps of the job. */
  start(numGradientSteps: number): void {
    this.#running?.onEvent({ kind: 'training_started', numGradientSteps, data: {} });
  }

  step(index: number): void {
    const traces = [{ groupIndex: 0, trajectoryIndex: 1, trace: Uint8Array.of(index, 7) }];
    this.#running?.onEvent({ kind: 'gradient_step', index, metrics: { policy_loss: index }, traces });
  }

  /** @param output the job's version; null: nothing was trained */
  async succeed(output: string | null, metrics: Record<string, number> = {}): Promise<void> {
    const isTrained = output !== null;
    if (isTrained) await this.commit(output);
    this.#running?.ended.resolve({ numGradientSteps: isTrained ? 2 : 0, digest: isTrained ? 'd' : null, metrics });
  }

  async commit(output: string): Promise<void> {
    const staged = await blobs.stageDirectory();
    await writeFile(join(staged, 'digest'), 'd');
    await blobs.commitDirectory(staged, output);
  }

  fail(error: Error): void {
    this.#running?.ended.reject(error);
  }

  /** Requested snapshots, by directory key. */
  readonly copies: string[] = [];
  copy: (directoryKey: string) => Promise<number | null> = async () => null;

  async copySnapshot(snapshots: string, directoryKey: string): Promise<number | null> {
    if (snapshots !== this.requests.at(-1)?.snapshots) throw new Error(`${snapshots} does not run`);
    this.copies.push(directoryKey);
    return await this.copy(directoryKey);
  }

  problem(): null {
    return null;
  }
}

let directory: string;
let store: SqlStore;
let blobs: FolderBlobs;
let backend: ScriptedBackend;
let worker: TrainingWorker;
const logged: string[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'worker-'));
  store = await openTestStore(directory);
  blobs = await FolderBlobs.open(join(directory, 'blobs'));
  logged.length = 0;
  startWorker();
});
afterEach(async () => {
  await worker.stop();
  await store.close();
  await blobs.close();
  await releaseTestDatabase(directory);
  await rm(directory, { recursive: true });
});

function startWorker(options: Partial<TrainingWorkerOptions> = {}): void {
  backend = new ScriptedBackend();
  worker = new TrainingWorker({
    store,
    blobs,
    backend,
    modelPaths: (id) => `/${id}.gguf`,
    baseModels: ['base', 'second'],
    workDirectory: join(directory, 'work'),
    log: (line) => logged.push(line),
    ...options,
  });
  worker.start();
}

/** The same with a shorter store timeout and lease. */
async function restartWith(options: { busyTimeoutMs: number; leaseMs?: number; heartbeatMs?: number }): Promise<void> {
  const { busyTimeoutMs, ...lease } = options;
  await worker.stop();
  await store.close();
  store = await openTestStore(directory, { busyTimeoutMs });
  startWorker(lease);
}

async function newModel(
  name: string,
  warmStart?: { modelId: string; step: number },
  baseModel = 'base',
): Promise<Model> {
  const { id: entityId } = await store.keys.ensureEntity('local');
  const made = await store.models.create({
    entityId,
    project: 'p',
    name,
    baseModel,
    lora: DEFAULT_LORA_CONFIG,
    ...(warmStart ? { warmStart: { kind: 'checkpoint', source: 'teacher', ...warmStart } } : {}),
  });
  if (made.kind !== 'created') throw new Error(made.kind);
  return made.model;
}

async function submit(model: Model, config: object = {}): Promise<TrainingJob> {
  const jobConfig = readJobConfig(config, 512);
  const job = await store.jobs.enqueue({
    modelId: model.id,
    kind: 'rl',
    config: jobConfig,
    dataKey: 'groups/g',
    rewards: [[1, 0]],
  });
  if (job === null) throw new Error('no model');
  worker.notify();
  return job;
}

/** Folder of a run's snapshots. */
const workOf = ({ snapshots }: TrainingJobRequest) => join(directory, 'work', snapshots);
const status = async (job: TrainingJob) => (await store.jobs.get(job.id))?.status;
const events = async (job: TrainingJob) =>
  ((await store.jobs.listEvents({ jobId: job.id }))?.items ?? []).map(({ type, data }) => ({ type, data }));
const until = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 100_000, interval: 5 });

/** Trains a step of the model; its checkpoint has the digest `d`. */
async function trainStep(model: Model): Promise<void> {
  const job = await submit(model);
  await backend.succeed((await backend.begun()).output);
  await until(async () => expect(await status(job)).toBe('succeeded'));
}

test('the start event of a job has ignored and dropped items, the end event its results', async () => {
  const job = await submit(await newModel('one'), { plot_tensors: true, newer: 1 });
  const { output } = await backend.begun();
  backend.step(0);
  await backend.succeed(output, { entropy: 2 });
  await until(async () => expect(await status(job)).toBe('succeeded'));
  expect(await events(job)).toEqual([
    {
      type: 'training_started',
      data: expect.objectContaining({ num_sequences: 2, ignored_config_keys: ['plot_tensors', 'newer'] }),
    },
    {
      type: 'warning',
      data: expect.objectContaining({ code: 'ignored_settings', value: 2 }),
    },
    { type: 'gradient_step', data: { policy_loss: 0 } },
    { type: 'training_ended', data: { num_gradient_steps: 2, step: 1 } },
  ]);
  expect(logged).toEqual([
    `job ${job.id}: starts, claim 1`,
    `job ${job.id}: settings without effect: plot_tensors, newer; 1 of 3 groups are trained, dropped: {"too_long":2}`,
    `job ${job.id}: succeeded, step 1`,
  ]);
  expect((await store.checkpoints.latest(job.modelId))?.metrics).toEqual({ 'train/entropy': 2 });
});

test('each job trains on the base model of its own model, and stays in the queue if that is not here', async () => {
  const lost = await submit(await newModel('three', undefined, 'gone'));
  for (const baseModel of ['base', 'second']) {
    await submit(await newModel(baseModel, undefined, baseModel));
    const { modelPath, output } = await backend.begun();
    expect(modelPath).toBe(`/${baseModel}.gguf`);
    await backend.succeed(output);
  }
  expect(await store.jobs.get(lost.id)).toMatchObject({ status: 'queued', numAttempts: 0, startedAt: null });
  await worker.stop();
  startWorker({ baseModels: ['gone'] });
  const { modelPath, output } = await backend.begun();
  expect(modelPath).toBe('/gone.gguf');
  await backend.succeed(output);
  await until(async () => expect(await status(lost)).toBe('succeeded'));
});

describe('a new step', () => {
  const warningsOf = async (job: TrainingJob) =>
    (await events(job))
      .filter(({ type }) => type === 'warning')
      .map(({ data }) => data as { code: string; message: string });

  test('is loaded in the engines before its job ends', async () => {
    await worker.stop();
    const loaded: unknown[] = [];
    const mayEnd = Promise.withResolvers<void>();
    startWorker({
      publish: async (baseModel, { digest, directoryKey }) => {
        const folder = await blobs.localDirectory(directoryKey);
        loaded.push([baseModel, digest, existsSync(join(folder!, 'digest'))]);
        await mayEnd.promise;
        return null;
      },
    });
    const job = await submit(await newModel('one'));
    await backend.succeed((await backend.begun()).output);
    await until(async () => expect(loaded).toEqual([['base', 'd', true]]));
    expect(await status(job)).toBe('running');
    expect(await store.checkpoints.latest(job.modelId)).toMatchObject({ step: 0 });
    mayEnd.resolve();
    await until(async () => expect(await status(job)).toBe('succeeded'));
    expect(await warningsOf(job)).toEqual([]);
  });

  test.each([
    [
      'no server accepts',
      () => Promise.reject(new BackendFailure('engine.adapter_unreadable', 'rank 32 is too large', null)),
    ],
    ['one server does not take', async () => '1 of 2 vLLM servers: rank 32 is too large'],
  ])('that %s is kept, and its job warns with the reason', async (_who, publish) => {
    await worker.stop();
    startWorker({ publish });
    const job = await submit(await newModel('one'));
    await backend.succeed((await backend.begun()).output);
    await until(async () => expect(await status(job)).toBe('succeeded'));
    expect(await warningsOf(job)).toEqual([
      expect.objectContaining({ code: 'adapter_not_loaded', message: expect.stringContaining('rank 32 is too large') }),
    ]);
    expect(await store.checkpoints.latest(job.modelId)).toMatchObject({ step: 1, digest: 'd' });
  });

  test.each([
    ['before its engines were asked', false],
    ['while its engines load it', true],
  ])('is made and loaded again if the service dies %s, and its job ends once', async (_when, isAsked) => {
    await worker.stop();
    const isThere = Promise.withResolvers<void>();
    const publish = vi.fn<NonNullable<TrainingWorkerOptions['publish']>>(() => {
      isThere.resolve();
      return new Promise(() => {});
    });
    startWorker({ publish });
    const job = await submit(await newModel('one'));
    const { output } = await backend.begun();
    // The version is in the blobs, and the process dies before the row is written.
    await (isAsked ? backend.succeed(output) : backend.commit(output));
    if (isAsked) await isThere.promise;
    const dead = worker;
    await store.recoverAfterRestart();
    const loaded: string[] = [];
    startWorker({
      publish: async (_base, { directoryKey }) => {
        loaded.push(directoryKey);
        return null;
      },
    });
    const again = await backend.begun();
    await dead.stop();
    expect(await store.checkpoints.latest(job.modelId)).toMatchObject({ step: 0 });
    await backend.succeed(again.output);
    await until(async () => expect(await status(job)).toBe('succeeded'));
    expect(await store.checkpoints.latest(job.modelId)).toMatchObject({ step: 1, directoryKey: again.output });
    expect(loaded).toEqual([again.output]);
    expect(publish).toHaveBeenCalledTimes(isAsked ? 1 : 0);
    const types = (await events(job)).map(({ type }) => type);
    expect(types.filter((type) => type === 'training_ended')).toHaveLength(1);
  });

  test('is kept if the service ends while its engines load it, and its job ends', async () => {
    await worker.stop();
    const loading = Promise.withResolvers<void>();
    startWorker({
      publish: () => {
        loading.resolve();
        return new Promise(() => {});
      },
    });
    const job = await submit(await newModel('one'));
    const { output } = await backend.begun();
    await backend.succeed(output);
    await loading.promise;
    await worker.stop();
    expect(await status(job)).toBe('succeeded');
    expect(await store.checkpoints.latest(job.modelId)).toMatchObject({ step: 1, digest: 'd', directoryKey: output });
    expect(await blobs.localDirectory(output)).not.toBeNull();
  });

  test.each([
    ['refuse it with a path', 'engine.adapter_unreadable', 'no file /srv/1/adapter.gguf', ['log of the engine']],
    ['do not answer', 'engine.host_lost', 'the inference engine is restarting; retry', []],
  ] as const)('does not keep its job from ending if its engines %s', async (_what, code, message, warnings) => {
    await worker.stop();
    startWorker({ publish: () => Promise.reject(new BackendFailure(code, message, null)) });
    const job = await submit(await newModel('one'));
    await backend.succeed((await backend.begun()).output);
    await until(async () => expect(await status(job)).toBe('succeeded'));
    const told = await warningsOf(job);
    expect(told.map((warning) => warning.message)).toEqual(warnings.map((words) => expect.stringContaining(words)));
    expect(JSON.stringify(told)).not.toContain('/srv');
    expect(logged.join('\n')).toContain(message);
  });

  test('leaves no folder if the store refuses its warning', async () => {
    await worker.stop();
    startWorker({ publish: async () => '1 of 2 engines: rank 32 is too large' });
    const append = store.jobs.appendEvent.bind(store.jobs);
    vi.spyOn(store.jobs, 'appendEvent').mockImplementation(async (id, token, event) => {
      if (event.type === 'warning') throw new StoreError('store.constraint_violated', 'refused');
      return await append(id, token, event);
    });
    const job = await submit(await newModel('one'));
    const { output } = await backend.begun();
    await backend.succeed(output);
    await until(async () => expect(await status(job)).toBe('failed'));
    expect(await blobs.localDirectory(output).catch(() => null)).toBeNull();
  });

  test('is no step if its job is cancelled while it is loaded', async () => {
    await worker.stop();
    const loading = Promise.withResolvers<void>();
    startWorker({
      publish: () => {
        loading.resolve();
        return new Promise(() => {});
      },
    });
    const job = await submit(await newModel('one'));
    const { output } = await backend.begun();
    await backend.succeed(output);
    await loading.promise;
    await store.jobs.cancel(job.id, 'enough');
    await worker.stopJob(job.id);
    expect(await status(job)).toBe('cancelled');
    expect(await blobs.localDirectory(output).catch(() => null)).toBeNull();
  });
});

describe('snapshots in the blobs', () => {
  /** Like a host's `copySnapshot`, with as many steps as have events. */
  const copies = (numSteps: () => number) => async (key: string) => {
    await backend.commit(key);
    return numSteps();
  };
  const snapshots = async () => (await blobs.listDirectories()).filter((key) => key.startsWith('snapshots/'));

  test('a worker that takes the job over continues from the newest one, which is removed with the end of the job', async () => {
    await worker.stop();
    startWorker({ snapshotSteps: 2 });
    const job = await submit(await newModel('one'));
    expect((await backend.begun()).snapshot).toBeNull();
    let numSteps = 0;
    backend.copy = copies(() => numSteps);
    backend.start(9);
    for (; numSteps < 3; numSteps++) backend.step(numSteps);
    await until(async () => expect(await snapshots()).toHaveLength(1));
    await until(async () => expect((await store.jobs.get(job.id))?.snapshot?.numGradientSteps).toBe(3));
    expect(await snapshots()).toEqual(backend.copies);

    // Its machine is gone, and cannot report anything.
    const [named] = backend.copies;
    const dead = worker;
    await store.recoverAfterRestart();
    startWorker({ snapshotSteps: 2 });
    const again = await backend.begun();
    expect(again.snapshot).toEqual({ directoryKey: named, numGradientSteps: 3 });
    await dead.stop();
    expect(await snapshots()).toEqual([named]);
    await backend.succeed(again.output);
    await until(async () => expect(await status(job)).toBe('succeeded'));
    await until(async () => expect(await snapshots()).toEqual([]));
  });

  test('the folder of a job that was lost, and ended elsewhere, goes with the end of another', async () => {
    const lost = await submit(await newModel('one'));
    const { snapshots: name } = await backend.begun();
    const folder = join(directory, 'work', name);
    await store.jobs.release(lost.id, (await store.jobs.get(lost.id))!.lease!.fencingToken);
    const elsewhere = (await store.jobs.claim('another', 60_000))!;
    await until(async () => expect(backend.isStopped).toBe(true));
    const other = await submit(await newModel('two'));
    const { output } = await backend.begun();
    expect(existsSync(folder)).toBe(true);
    await store.jobs.fail(elsewhere.id, elsewhere.fencingToken, 'no reason');
    await backend.succeed(output);
    await until(async () => expect(await status(other)).toBe('succeeded'));
    await until(async () => expect(existsSync(folder)).toBe(false));
  });

  test('a service that ends leaves the newest one', async () => {
    await worker.stop();
    startWorker({ snapshotSteps: 100 });
    const job = await submit(await newModel('one'));
    await backend.begun();
    backend.start(9);
    backend.copy = copies(() => 2);
    for (const index of [0, 1]) backend.step(index);
    await until(async () => expect(await events(job)).toHaveLength(3));
    await worker.stop();
    expect(await store.jobs.get(job.id)).toMatchObject({
      status: 'queued',
      snapshot: { directoryKey: backend.copies[0], numGradientSteps: 2 },
    });
    expect(await snapshots()).toEqual(backend.copies);
  });

  test('a job that is cancelled while one is on its way leaves none', async () => {
    await worker.stop();
    startWorker({ snapshotSteps: 1 });
    const job = await submit(await newModel('one'));
    await backend.begun();
    const open = Promise.withResolvers<void>();
    backend.copy = async (key) => {
      await open.promise;
      return await copies(() => 1)(key);
    };
    backend.start(9);
    backend.step(0);
    await until(async () => expect(backend.copies).toHaveLength(1));
    await store.jobs.cancel(job.id, 'enough');
    await worker.stopJob(job.id);
    open.resolve();
    const removed = vi.spyOn(blobs, 'removeDirectory');
    await until(async () => expect(removed.mock.calls).toEqual([[backend.copies[0]]]));
    await until(async () => expect(await snapshots()).toEqual([]));
    expect(logged.join()).not.toContain('snapshot');
  });
});

test('a job without anything to train succeeds with a warning', async () => {
  const job = await submit(await newModel('one'));
  await backend.begun();
  await backend.succeed(null, { num_groups_dropped_equal_rewards: 2, num_groups_dropped_too_long: 1 });
  await until(async () => expect(await status(job)).toBe('succeeded'));
  const message = 'nothing was trained, the weights are unchanged; groups dropped: 2 equal_rewards, 1 too_long';
  expect((await events(job)).at(-1)).toEqual({
    type: 'training_ended',
    data: { num_gradient_steps: 0, message, step: expect.any(Number) },
  });
  expect(await store.checkpoints.latest(job.modelId)).toMatchObject({ step: 1, directoryKey: null });
});

test('the own checkpoint of an ended job cannot be removed', async () => {
  const model = await newModel('one');
  await trainStep(model);
  const before = (await store.checkpoints.get(model.id, 1))?.directoryKey ?? 'none';
  const job = await submit(model);
  const { output } = await backend.begun();
  await store.checkpoints.delete(model.id, [1]);
  const remove = vi.spyOn(blobs, 'removeDirectory').mockRejectedValueOnce(new Error('EBUSY'));
  await backend.succeed(output);
  await until(async () => expect(logged).toContain(`the directory ${before} is left on disk: Error: EBUSY`));
  expect(remove.mock.calls).toEqual([[before]]);
  expect(await status(job)).toBe('succeeded');
  const made = (await store.checkpoints.latest(model.id))?.directoryKey ?? 'none';
  expect([made === before, await blobs.localDirectory(made)]).toEqual([false, expect.any(String)]);
});

test('a job may lose as many services as it likes while it gets on, and not many while it does not', async () => {
  const job = await submit(await newModel('one'));
  /** The service dies during the job, and another starts. */
  const crash = async () => {
    const dead = worker;
    await store.recoverAfterRestart();
    startWorker();
    await dead.stop();
  };
  for (let index = 0; index < 7; index++) {
    await backend.begun();
    backend.step(index);
    await until(async () => expect(await events(job)).toHaveLength(index + 2));
    await crash();
  }
  for (let loss = 0; loss < 4; loss++) {
    await backend.begun();
    await crash();
  }
  await until(async () => expect(await status(job)).toBe('failed'));
  const message = 'the service stopped 5 times while this job ran, without a gradient step in between';
  expect((await events(job)).at(-1)?.data).toEqual({ error_message: `${message} (trainer.host_lost)` });
});

describe('a store that is busy or full', () => {
  /** Another process holds the database's write lock until the result is called. */
  const lockStore = async () => await holdWriters(await testDatabase(directory));

  test('for a part of the lease: the job writes everything once it can, in order', async () => {
    await restartWith({ busyTimeoutMs: 10 });
    const job = await submit(await newModel('one'));
    const { output } = await backend.begun();
    const unlock = await lockStore();
    backend.step(0);
    backend.step(1);
    await backend.succeed(output, { entropy: 2 });
    await until(async () => expect(logged.join()).toContain('waits'));
    expect(await status(job)).toBe('running');
    await unlock();
    await until(async () => expect(await status(job)).toBe('succeeded'));
    expect((await events(job)).map(({ type }) => type)).toEqual([
      'training_started',
      'gradient_step',
      'gradient_step',
      'training_ended',
    ]);
    expect((await store.jobs.get(job.id))?.numAttempts).toBe(1);
  });

  test('for longer than the lease: training stops, keeps its snapshots, and the job is taken up again', async () => {
    await restartWith({ busyTimeoutMs: 10, leaseMs: 300, heartbeatMs: 50 });
    const job = await submit(await newModel('one'));
    const workDirectory = workOf(await backend.begun());
    backend.step(0);
    await until(async () => expect(await events(job)).toHaveLength(2));
    const unlock = await lockStore();
    backend.step(1);
    await until(async () => expect(backend.isStopped).toBe(true));
    expect(existsSync(workDirectory)).toBe(true);
    await unlock();
    const again = await backend.begun();
    expect([again.jobId, workOf(again)]).toEqual([job.id, workDirectory]);
    for (const index of [0, 1]) backend.step(index);
    await backend.succeed(again.output);
    await until(async () => expect(await status(job)).toBe('succeeded'));
    expect(await store.jobs.get(job.id)).toMatchObject({ numAttempts: 1, errorMessage: null });
    expect((await events(job)).map(({ type }) => type)).toEqual([
      'training_started',
      'gradient_step',
      'gradient_step',
      'training_ended',
    ]);
  });

  test('a full disk under the trainer host: the job waits, then continues', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const job = await submit(await newModel('one'));
    for (let attempt = 0; attempt < 5; attempt++) {
      await backend.begun();
      backend.fail(
        new TrainingRunError({
          code: 'trainer.disk_full',
          message: 'no space left to write /srv/data/work/step-1',
          retry: 'wait',
        }),
      );
      await vi.waitFor(() => expect(worker.problem()).toContain('disk of the service is full'), {
        interval: 0,
        timeout: 100_000,
      });
      expect(worker.problem()).not.toContain('/srv');
      await vi.advanceTimersByTimeAsync(10_000);
    }
    const { output } = await backend.begun();
    vi.useRealTimers();
    expect(await status(job)).toBe('running');
    await backend.succeed(output);
    await until(async () => expect(await status(job)).toBe('succeeded'));
  });

  test('a commit that fails on the disk and reached it all the same: the job has succeeded, and keeps its files', async () => {
    const finish = store.jobs.succeed.bind(store.jobs);
    vi.spyOn(store.jobs, 'succeed').mockImplementationOnce(async (...input) => {
      await finish(...input);
      throw new StoreError('store.unavailable', 'disk I/O error');
    });
    const job = await submit(await newModel('one'));
    await backend.succeed((await backend.begun()).output);
    await until(async () => expect(await status(job)).toBe('succeeded'));
    await worker.stop();
    const { directoryKey } = (await store.checkpoints.latest(job.modelId))!;
    expect(await blobs.listDirectories()).toEqual([directoryKey]);
  });

  test('a commit that fails on the disk and cannot be looked at: the files stay for the next start to decide', async () => {
    const broken = new StoreError('store.unavailable', 'disk I/O error');
    vi.spyOn(store.jobs, 'succeed').mockRejectedValue(broken);
    vi.spyOn(store.files, 'isNamed').mockRejectedValue(broken);
    const job = await submit(await newModel('one'));
    await backend.succeed((await backend.begun()).output);
    await until(async () => expect(logged.join()).toContain('waits'));
    await worker.stop();
    expect(await blobs.listDirectories()).toHaveLength(1);
    expect(await status(job)).toBe('queued');
  });
});

describe('a run that ends', () => {
  test('by the loss of its learner restarts at once, as long as it makes progress in between, with the same names', async () => {
    const lost = new TrainingRunError({ code: 'trainer.host_lost', message: 'it is gone', retry: 'resume' });
    const job = await submit(await newModel('one'));
    const first = await backend.begun();
    for (let index = 0; index < 5; index++) {
      backend.step(index);
      backend.fail(lost);
      expect(await backend.begun()).toEqual(first);
    }
    // The last of those was the first without a step before it.
    backend.fail(lost);
    await backend.begun();
    backend.fail(lost);
    await until(async () => expect(await status(job)).toBe('failed'));
    expect((await store.jobs.get(job.id))?.errorMessage).toContain('(trainer.host_lost)');
  });

  test.each(['failed', 'cancelled'])('after it committed its version leaves none of it: %s', async (end) => {
    const job = await submit(await newModel('one'));
    const { output } = await backend.begun();
    await backend.commit(output);
    if (end === 'failed') backend.fail(new TrainingRunError({ code: 'trainer.internal', message: '', retry: 'never' }));
    else {
      await store.jobs.cancel(job.id, 'enough');
      await worker.stopJob(job.id);
    }
    await until(async () => expect((await store.jobs.get(job.id))?.finishedAt).not.toBe(null));
    await until(async () => expect(await blobs.listDirectories()).toEqual([]));
  });
});

describe('errors shown to clients', () => {
  test.each([
    [
      new TrainingRunError({
        code: 'trainer.checkpoint_unreadable',
        message: '/srv/data/adapter: damaged',
        retry: 'never',
      }),
      'files of',
    ],
    [
      new TrainingRunError({ code: 'trainer.internal', message: 'ENOENT: /srv/data/x', retry: 'never' }),
      'service failed',
    ],
    [new TrainingRunError({ code: 'ENOENT', message: "open '/srv/data/x'", retry: 'never' }), '(internal)'],
    [new TrainingRunError({ code: 'native.load_failed', message: 'dlopen /srv/lib.so', retry: 'never' }), '(internal)'],
    [new StoreError('store.corrupt', 'database /srv/db.sqlite is damaged'), 'store.corrupt'],
    [new Error('/srv'), '(internal)'],
  ])('names no file of this machine: %s', async (error, expected) => {
    const job = await submit(await newModel('one'));
    await backend.begun();
    backend.fail(error);
    await until(async () => expect(await status(job)).toBe('failed'));
    const told = JSON.stringify([await events(job), await store.jobs.get(job.id)]);
    expect(told).toContain(expected);
    expect(told).not.toContain('/srv');
    expect(logged.join(), 'the log has the cause').toContain('/srv');
  });
});

describe('control', () => {
  test('a cancelled job stops at once and makes room for the next', async () => {
    const model = await newModel('one');
    const [first, second] = [await submit(model), await submit(model)];
    const workDirectory = workOf(await backend.begun());
    await store.jobs.cancel(first.id, 'enough');
    await worker.stopJob(first.id);
    expect((await backend.begun()).jobId).toBe(second.id);
    expect((await events(first)).map(({ type }) => type)).toEqual(['training_started', 'training_failed']);
    expect(existsSync(workDirectory)).toBe(false);
    expect((await store.checkpoints.latest(model.id))?.step).toBe(0);
  });

  test('a job that another process cancels or pauses is let go of long before the next renewal', async () => {
    await restartWith({ busyTimeoutMs: 5_000, leaseMs: 2_000_000_000, heartbeatMs: 1_000_000_000 });
    const other = await openTestStore(directory);
    const model = await newModel('one');
    const [first, second] = [await submit(model), await submit(model)];
    expect((await backend.begun()).jobId).toBe(first.id);
    await other.jobs.cancel(first.id, 'enough');
    const request = await backend.begun();
    expect(request.jobId).toBe(second.id);
    await other.jobs.pause(second.id);
    await until(async () => expect(backend.isStopped).toBe(true));
    expect([await status(first), await status(second), existsSync(workOf(request))]).toEqual([
      'cancelled',
      'queued',
      true,
    ]);
    await other.close();
  });

  test('a paused job keeps its snapshots, lets other models train, and resumes', async () => {
    const [one, two] = [await newModel('one'), await newModel('two')];
    const job = await submit(one);
    const later = await submit(one);
    const workDirectory = workOf(await backend.begun());
    backend.step(0);
    await until(async () => expect(await events(job)).toHaveLength(2));
    await store.jobs.pause(job.id);
    await worker.stopJob(job.id);
    expect(existsSync(workDirectory)).toBe(true);
    const other = await submit(two);
    expect((await backend.begun()).jobId).toBe(other.id);
    await backend.succeed(null);
    await until(async () => expect(await status(other)).toBe('succeeded'));
    expect([await status(job), await status(later)]).toEqual(['queued', 'queued']);

    await worker.stop();
    startWorker();
    await store.jobs.resume(job.id);
    worker.notify();
    const resumed = await backend.begun();
    expect([resumed.jobId, workOf(resumed)]).toEqual([job.id, workDirectory]);
    backend.step(0); // repeated, stored as one event
    backend.step(1);
    await backend.succeed(resumed.output);
    await until(async () => expect(await status(job)).toBe('succeeded'));
    expect((await events(job)).map(({ type }) => type)).toEqual([
      'training_started',
      'gradient_step',
      'gradient_step',
      'training_ended',
    ]);
    expect((await backend.begun()).jobId).toBe(later.id);
    expect(existsSync(workDirectory)).toBe(false);
    expect((await store.jobs.get(job.id))?.numAttempts).toBe(1);
    // Its run has no point twice, and no trajectory its tokens twice.
    const query = { modelId: one.id, names: ['train/policy_loss'], axis: 'gradient_step', maxPoints: 10 } as const;
    expect(await store.runs.readSeries(query)).toMatchObject([
      {
        points: [
          { first: 0, mean: 0, count: 1 },
          { first: 1, mean: 1, count: 1 },
        ],
      },
    ]);
    expect(await store.trajectories.listTraces(`${job.id}.0.1`)).toEqual([
      { gradientStep: 0, trace: Uint8Array.of(0, 7) },
      { gradientStep: 1, trace: Uint8Array.of(1, 7) },
    ]);
  });

  test('a job cancelled while paused leaves no snapshots, also without a running worker', async () => {
    const model = await newModel('one');
    for (const isThere of [true, false]) {
      const job = await submit(model);
      const workDirectory = workOf(await backend.begun());
      await store.jobs.pause(job.id);
      await worker.stopJob(job.id);
      expect(existsSync(workDirectory)).toBe(true);
      if (!isThere) await worker.stop();
      await store.jobs.cancel(job.id, 'enough');
      if (isThere) await worker.stopJob(job.id);
      else startWorker();
      await until(async () => expect(existsSync(workDirectory)).toBe(false));
    }
  });
});

describe('weights', () => {
  test('the reference of a KL term is the step that the settings name', async () => {
    const model = await newModel('one');
    await trainStep(model);
    await trainStep(model);
    const keyOf = async (step: number) => (await store.checkpoints.get(model.id, step))?.directoryKey;
    for (const [config, expected] of [
      [{}, undefined],
      [{ kl_penalty_coef: 0.1 }, null],
      [{ kl_penalty_coef: 0.1, kl_penalty_reference_step: 1 }, await keyOf(1)],
      [{ kl_penalty_reference_step: 2 }, await keyOf(2)],
      [{ kl_penalty_coef: 0.1, kl_penalty_step_lag: 1 }, await keyOf(1)],
      [{ kl_penalty_coef: 0.1, kl_penalty_step_lag: 9 }, null],
    ] as const) {
      const job = await submit(model, config);
      const request = await backend.begun();
      expect([config, request.referenceFrom]).toEqual([config, expected]);
      await store.jobs.cancel(job.id, 'seen');
      await worker.stopJob(job.id);
    }
    await store.checkpoints.delete(model.id, [1]);
    const lost = await submit(model, { kl_penalty_coef: 0.1, kl_penalty_step_lag: 1 });
    await until(async () => expect(await status(lost)).toBe('failed'));
    expect((await store.jobs.get(lost.id))?.errorMessage).toContain('step 1 (the reference of this job)');
  });

  test('a job that waited through an update gets the defaults of newer settings', async () => {
    const model = await newModel('one');
    const { learningRateSchedule: _newer, ...older } = readJobConfig({ ppo: true }, 512).resolved;
    const config = { resolved: older, requested: {}, ignoredKeys: [] };
    await store.jobs.enqueue({ modelId: model.id, kind: 'rl', config, dataKey: 'groups/g' });
    worker.notify();
    const request = await backend.begun();
    expect(request.config).toMatchObject({ lossFunction: 'ppo', learningRateSchedule: 'constant' });
  });

  test('a model without its start weights is not trained from the base model instead', async () => {
    const teacher = await newModel('teacher');
    await trainStep(teacher);
    const pupil = await newModel('pupil', { modelId: teacher.id, step: 1 });
    const first = await submit(teacher);
    await backend.begun();
    const job = await submit(pupil);
    await store.checkpoints.delete(pupil.id, [0]);
    await store.jobs.cancel(first.id, 'seen');
    await worker.stopJob(first.id);
    await until(async () => expect(await status(job)).toBe('failed'));
    expect((await store.jobs.get(job.id))?.errorMessage).toContain('did not start from the base model');
  });

  test('a job from a step without its optimizer state restarts the optimizer with a warning, and sizes are recorded', async () => {
    const model = await newModel('one');
    await trainStep(model);
    await until(async () =>
      expect((await store.retention.listStates(model.id))[1]).toMatchObject({ sizeBytes: 1, optimizerBytes: 0 }),
    );
    await trainStep(model);
    await store.retention.dropOptimizers(model.id, [1]);
    await store.checkpoints.delete(model.id, [2]);
    const job = await submit(model);
    expect(await backend.begun()).toMatchObject({ withFreshOptimizer: true });
    await until(async () =>
      expect(await events(job)).toEqual([
        expect.objectContaining({ type: 'training_started' }),
        { type: 'warning', data: expect.objectContaining({ code: 'optimizer_fresh', value: 1 }) },
      ]),
    );
    expect(logged.some((line) => line.includes(`job ${job.id}: warning optimizer_fresh: `))).toBe(true);
  });

  test('a model started with another’s weights has an optimizer of its own', async () => {
    const teacher = await newModel('teacher');
    await trainStep(teacher);
    const pupil = await newModel('pupil', { modelId: teacher.id, step: 1 });
    const first = await submit(pupil, { kl_penalty_coef: 0.1 });
    const request = await backend.begun();
    const weights = (await store.checkpoints.get(teacher.id, 1))?.directoryKey;
    expect(request).toMatchObject({ startFrom: weights, withFreshOptimizer: true, referenceFrom: weights });
    expect(request).toMatchObject({ beganFrom: { version: weights } });
    // A step without training shares the teacher's files, but not its momentum.
    await backend.succeed(null);
    await until(async () => expect(await status(first)).toBe('succeeded'));
    await submit(pupil);
    const second = await backend.begun();
    expect(second).toMatchObject({ startFrom: weights, withFreshOptimizer: true });
    await backend.succeed(second.output);
    await submit(pupil);
    expect(await backend.begun()).toMatchObject({ withFreshOptimizer: false });
  });
});

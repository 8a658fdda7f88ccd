import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs, type ModelExport, type SqlStore, StoreError } from '@trainyard/store';
import type { ExportRequest, ExportResult, ImportedAdapter } from '@trainyard/trainer';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { TransferBackend } from '../../hosts/transfers/embedded-transfers.ts';
import { TransferError } from '../../hosts/transfers/transfer-error.ts';
import { ExportWorker } from './export-worker.ts';
import { openTestStore, releaseTestDatabase } from '../../testing/test-store.ts';

const PARITY = {
  numTokens: 256,
  meanDifference: 0,
  maxDifference: 0,
  computedBy: 'trainer',
  adapterEffect: 0,
} as const;
const FILES = [{ name: 'model.gguf', sizeBytes: 1, sha256: 'ab' }];

/** Runs the test's behaviour for each export; by default writes one file. */
class ScriptedTransfers implements TransferBackend {
  readonly requests: ExportRequest[] = [];
  behave: (request: ExportRequest, signal: AbortSignal) => Promise<void> = async () => {};

  async exportCheckpoint(request: ExportRequest, { signal }: { signal: AbortSignal }): Promise<ExportResult> {
    this.requests.push(request);
    await writeFile(join(request.outputDirectory, 'model.gguf'), 'x');
    await this.behave(request, signal);
    return { files: FILES, parity: PARITY };
  }

  async importAdapter(): Promise<ImportedAdapter> {
    throw new Error('nothing is imported here');
  }
}

let directory: string;
let store: SqlStore;
let blobs: FolderBlobs;
let transfers: ScriptedTransfers;
let worker: ExportWorker;
let modelId: string;
let servedModel: string;
const logged: string[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-exports-'));
  store = await openTestStore(directory);
  blobs = await FolderBlobs.open(join(directory, 'blobs'));
  transfers = new ScriptedTransfers();
  servedModel = 'base';
  const modelPaths = (id: string) => (id === servedModel ? '/models/base.gguf' : null);
  worker = new ExportWorker({ store, blobs, backend: transfers, modelPaths, log: (line) => logged.push(line) });
  const { id: entityId } = await store.keys.ensureEntity('local');
  const lora = { rank: 2, alpha: 4, targets: ['q'], initSeed: 0 };
  const made = await store.models.create({ entityId, project: 'p', name: 'm', baseModel: 'base', lora });
  if (made.kind === 'warm_start_missing') throw new Error('no model was made');
  modelId = made.model.id;
  worker.start();
});

afterEach(async () => {
  await worker.stop();
  await store.close();
  await blobs.close();
  await releaseTestDatabase(directory);
  await rm(directory, { recursive: true });
  logged.length = 0;
});

async function queue(step = 0): Promise<ModelExport> {
  const job = await store.exports.create({ modelId, step, format: 'merged-gguf', dtype: 'f16' });
  if (job === null) throw new Error('no such step');
  worker.notify();
  return job;
}

async function end(id: string): Promise<ModelExport> {
  await expect.poll(async () => (await store.exports.get(id))?.finishedAt, { timeout: 100_000 }).toBeTypeOf('number');
  return (await store.exports.get(id))!;
}

/** Lists the blobs, finished and half-written. */
async function leftovers(): Promise<string[]> {
  const areas = await readdir(join(directory, 'blobs/staging'));
  const staged = await Promise.all(areas.map((area) => readdir(join(directory, 'blobs/staging', area))));
  return [...(await blobs.listDirectories()), ...staged.flat()];
}

/** Pauses exports until it is opened; `reached` resolves when one waits. */
function barrier() {
  const reached = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  transfers.behave = async (_request, signal) => {
    reached.resolve();
    signal.addEventListener('abort', () => opened.reject(signal.reason as Error), { once: true });
    await opened.promise;
  };
  return { reached: reached.promise, open: opened.resolve };
}

test('an export gets its inputs and ends with its files in place', async () => {
  const { id } = await queue();
  const done = await end(id);
  expect(transfers.requests).toMatchObject([
    {
      modelPath: '/models/base.gguf',
      baseModelId: 'base',
      checkpointDirectory: null,
      format: 'merged-gguf',
      type: 'f16',
    },
  ]);
  expect(done).toMatchObject({ status: 'succeeded', files: FILES, parity: PARITY });
  expect(await readdir((await blobs.localDirectory(done.directoryKey!))!)).toEqual(['model.gguf']);
  expect(await leftovers()).toEqual([done.directoryKey]);
});

test('a failure is reported with its code, and leaves nothing', async () => {
  transfers.behave = () =>
    Promise.reject(new TransferError({ code: 'trainer.disk_full', message: 'no space left to write the export' }));
  const { id } = await queue();
  expect(await end(id)).toMatchObject({
    status: 'failed',
    errorMessage: 'The disk of the service is full; its operator must free space (trainer.disk_full)',
  });
  expect(await leftovers()).toEqual([]);
});

test('a model of another base than the one served now, and a checkpoint without files, fail', async () => {
  servedModel = 'other';
  const first = await end((await queue()).id);
  expect(first.errorMessage).toBe('the model is based on base, which is not served now (trainer.config_invalid)');
  servedModel = 'base';
  await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups/1' });
  const training = (await store.jobs.claim('test', 60_000))!;
  const outcome = { directoryKey: 'checkpoints/gone', digest: 'd', metrics: {} };
  await store.jobs.succeed(training.id, training.fencingToken, outcome);
  const second = await end((await queue(1)).id);
  expect(second.errorMessage).toBe('the files of step 1 are missing (trainer.checkpoint_unreadable)');
});

test('an export of a damaged step fails once, with the step and the file', async () => {
  await queue();
  const staged = await blobs.stageDirectory();
  for (const name of ['adapter_config.json', 'adapter_model.safetensors', 'adapter.gguf'])
    await writeFile(join(staged, name), name);
  await blobs.commitDirectory(staged, 'checkpoints/damaged');
  await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups/1' });
  const training = (await store.jobs.claim('test', 60_000))!;
  const outcome = { directoryKey: 'checkpoints/damaged', digest: 'd'.repeat(64), metrics: {} };
  await store.jobs.succeed(training.id, training.fencingToken, outcome);
  const numBefore = transfers.requests.length;
  const failed = await end((await queue(1)).id);
  expect(failed.errorMessage).toMatch(
    /^The files of `local\/p\/m:step1` are damaged: adapter_model\.safetensors is damaged: .* \(trainer\.checkpoint_damaged\)$/,
  );
  expect((await store.jobs.get(failed.id))?.numAttempts).toBe(1);
  expect((await end((await queue(0)).id)).status).toBe('succeeded');
  expect(transfers.requests.slice(numBefore).every(({ checkpointDirectory }) => checkpointDirectory === null)).toBe(
    true,
  );
});

test('a shutdown puts the export back, without counting the attempt', async () => {
  const { reached } = barrier();
  const { id } = await queue();
  await reached;
  await worker.stop();
  expect(await store.exports.get(id)).toMatchObject({ status: 'queued' });
  expect(await store.jobs.get(id)).toMatchObject({ numAttempts: 0, lease: null });
  expect(await leftovers()).toEqual([]);
});

test.each(['export', 'model'] as const)('deleting the %s stops it before the answer is out', async (what) => {
  const { reached } = barrier();
  const { id } = await queue();
  await reached;
  if (what === 'export') {
    await store.exports.delete(id);
    await worker.cancelExport(id);
  } else {
    await store.models.delete(modelId);
    await worker.cancelModel(modelId);
  }
  expect(await leftovers()).toEqual([]);
  expect(logged).toEqual([]);
});

test('an export that another process deletes is stopped here', async () => {
  const { reached } = barrier();
  const { id } = await queue();
  await reached;
  const other = await openTestStore(directory);
  await other.exports.delete(id);
  await other.close();
  await expect.poll(leftovers).toEqual([]);
  expect(logged).toEqual([]);
});

test('an export that was deleted the moment it finished leaves nothing', async () => {
  const { reached, open } = barrier();
  const { id } = await queue();
  await reached;
  await store.exports.delete(id);
  open();
  await expect.poll(leftovers).toEqual([]);
  transfers.behave = async () => {};
  expect((await end((await queue()).id)).status).toBe('succeeded');
});

test('crashes of the service are no failures of an export, up to twenty of them', async () => {
  const job = await queue();
  await end(job.id);
  await worker.stop();
  const crash = async (numCrashes: number) => {
    for (let i = 0; i < numCrashes; i++) {
      await store.jobs.claim(store.instanceId, 60_000, ['export']);
      await store.recoverAfterRestart();
    }
  };
  const start = () => {
    const modelPaths = () => '/models/base.gguf';
    worker = new ExportWorker({ store, blobs, backend: transfers, modelPaths, log: () => {} });
    worker.start();
  };
  const survivor = await queue();
  await crash(19);
  start();
  expect((await end(survivor.id)).status).toBe('succeeded');
  await worker.stop();
  const { id } = await queue();
  await crash(20);
  start();
  expect((await end(id)).errorMessage).toBe('the service stopped 20 times while this export ran (trainer.host_lost)');
});

const LOST = new TransferError({ code: 'trainer.host_lost', message: 'the process that ran it is gone' });

test('an export that lost its host runs again with an empty folder', async () => {
  let numLosses = 0;
  transfers.behave = async () => {
    if (numLosses++ < 2) throw LOST;
  };
  const done = await end((await queue()).id);
  expect(done).toMatchObject({ status: 'succeeded', errorMessage: null });
  const folders = transfers.requests.map(({ outputDirectory }) => outputDirectory);
  expect([folders.length, new Set(folders).size]).toEqual([3, 3]);
  expect(await leftovers()).toEqual([done.directoryKey]);
  expect(logged.map((line) => /Attempt \d of 3/.exec(line)?.[0])).toEqual(['Attempt 2 of 3', 'Attempt 3 of 3']);
});

test('an export that lost its host three times fails once, and others continue', async () => {
  transfers.behave = () => Promise.reject(LOST);
  const done = await end((await queue()).id);
  expect([done.status, transfers.requests.length]).toEqual(['failed', 3]);
  expect(done.errorMessage).toBe(
    '3 processes were lost while this job ran: the process that ran it is gone (trainer.host_lost)',
  );
  transfers.behave = async () => {};
  expect((await end((await queue()).id)).status).toBe('succeeded');
});

test.each(['named', 'not named'])(
  'a commit with a lost answer is tried again: files that are %s by the row after the first one',
  async (outcome) => {
    const finishExport = store.exports.finish.bind(store.exports);
    vi.spyOn(store.exports, 'finish').mockImplementationOnce(async (...input) => {
      if (outcome === 'named') await finishExport(...input);
      throw new StoreError('store.unavailable', 'disk I/O error');
    });
    const done = await end((await queue()).id);
    expect(done.status).toBe('succeeded');
    expect(await leftovers()).toEqual([done.directoryKey]);
  },
);

test.each(['stageDirectory', 'commitDirectory'] as const)(
  'blobs that are away for a moment make an export wait: %s',
  async (method) => {
    const away = new StoreError('store.unavailable', 'the file system does not answer');
    const call = vi.spyOn(blobs, method).mockRejectedValueOnce(away);
    const done = await end((await queue()).id);
    expect(done).toMatchObject({ status: 'succeeded', errorMessage: null });
    expect(call.mock.calls.length).toBeGreaterThan(1);
    expect(await leftovers()).toEqual([done.directoryKey]);
  },
);

test('a commit on a full disk fails the export, and its files are removed', async () => {
  vi.spyOn(store.exports, 'finish').mockRejectedValueOnce(new StoreError('store.disk_full', 'no room'));
  const done = await end((await queue()).id);
  expect(done.status).toBe('failed');
  expect(await leftovers()).toEqual([]);
});

test('a busy store makes an export wait', async () => {
  const getModel = vi.spyOn(store.models, 'get').mockRejectedValueOnce(new StoreError('store.busy', 'held: /srv/db'));
  expect((await end((await queue()).id)).status).toBe('succeeded');
  expect(getModel).toHaveBeenCalledTimes(2);
});

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type Adapter, FolderBlobs, type SqlStore, StoreError } from '@trainyard/store';
import type { ExportResult, ImportedAdapter, ImportRequest } from '@trainyard/trainer';
import { afterEach, beforeEach, expect, type Mock, test, vi } from 'vitest';

import type { TransferBackend } from '../../hosts/transfers/embedded-transfers.ts';
import { TransferError } from '../../hosts/transfers/transfer-error.ts';
import { ImportWorker, type ImportWorkerOptions } from './import-worker.ts';
import { putUpload } from '../../seams/integrity/upload-digest.ts';
import { openTestStore, releaseTestDatabase } from '../../testing/test-store.ts';

/** Writes one file for each import, after the test's behaviour. */
class ScriptedTransfers implements TransferBackend {
  numImports = 0;
  behave: (signal: AbortSignal) => Promise<void> = async () => {};

  lastRequest: ImportRequest | null = null;

  async importAdapter(request: ImportRequest, options: { signal: AbortSignal }): Promise<ImportedAdapter> {
    const { outputDirectory } = request;
    this.lastRequest = request;
    this.numImports += 1;
    await this.behave(options.signal);
    await writeFile(join(outputDirectory, 'digest'), 'd');
    return { lora: { rank: 2, alpha: 4, targets: ['q'], initSeed: 0 }, digest: 'd' };
  }

  async exportCheckpoint(): Promise<ExportResult> {
    throw new Error('nothing is exported here');
  }
}

let directory: string;
let store: SqlStore;
let blobs: FolderBlobs;
let transfers: ScriptedTransfers;
let imports: ImportWorker;
let adapter: Adapter;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-imports-'));
  store = await openTestStore(directory);
  blobs = await FolderBlobs.open(join(directory, 'blobs'));
  transfers = new ScriptedTransfers();
  imports = newWorker();
  imports.start();
  const { id: entityId } = await store.keys.ensureEntity('local');
  const keys = { configKey: 'uploads/a/config', weightsKey: 'uploads/a/weights' };
  adapter = await store.adapters.create({ entityId, baseModel: 'base', ...keys });
  for (const key of Object.values(keys)) await blobs.put(key, Buffer.from('{}'));
});

afterEach(async () => {
  await imports.stop();
  await store.close();
  await blobs.close();
  await releaseTestDatabase(directory);
  await rm(directory, { recursive: true });
});

const modelPaths = (id: string) => (['base', 'second'].includes(id) ? `/${id}.gguf` : null);
const newWorker = (at: SqlStore = store, options: Partial<ImportWorkerOptions> = {}) =>
  new ImportWorker({ store: at, blobs, backend: transfers, modelPaths, log: () => {}, ...options });

/** The files left on disk. */
const kept = async () => ({ files: await blobs.listKeys(), directories: await blobs.listDirectories() });

async function deleteAdapter(): Promise<void> {
  const deleted = await store.adapters.delete(adapter.id);
  for (const key of deleted?.blobKeys ?? []) await blobs.remove(key);
}

test('commits that come together are one import with one answer', async () => {
  const answers = await Promise.all([imports.commit(adapter), imports.commit(adapter), imports.commit(adapter)]);
  expect(answers[0]).toMatchObject({ upload: null, content: { digest: 'd', lora: { rank: 2 } } });
  expect([answers[1], answers[2], transfers.numImports]).toEqual([answers[0], answers[0], 1]);
  expect(await kept()).toEqual({ files: [], directories: [answers[0].content?.directoryKey] });
});

test('an import that lost its host runs again, three times in all', async () => {
  const lost = new TransferError({ code: 'trainer.host_lost', message: 'it is gone' });
  transfers.behave = () => Promise.reject(lost);
  await expect(imports.commit(adapter)).rejects.toMatchObject({ code: 'trainer.host_lost' });
  expect(transfers.numImports).toBe(3);
  transfers.behave = async () => {
    if (transfers.numImports === 4) throw lost;
  };
  expect(await imports.commit(adapter)).toMatchObject({ upload: null, content: { digest: 'd' } });
  expect(transfers.numImports).toBe(5);
});

test.each(['config', 'weights'])('an upload with a changed %s is refused, and nothing is imported', async (part) => {
  const key = `uploads/a/${part}`;
  const sent = async function* () {
    yield Buffer.from('{"a":');
    yield Buffer.from('1}');
  };
  await putUpload(blobs, key, sent());
  const path = (await blobs.localFile(key))!;
  await writeFile(path, '{"a":3}');
  await expect(imports.commit(adapter)).rejects.toMatchObject({
    code: 'store.blob_corrupt',
    message: expect.stringMatching(/^The uploaded adapter_\w+\.\w+ is damaged/),
  });
  expect(transfers.numImports).toBe(0);
  await putUpload(blobs, key, sent());
  expect(await imports.commit(adapter)).toMatchObject({ upload: null });
  expect((await kept()).files).toEqual([]);
});

test('an adapter is checked against the base model of its upload', async () => {
  const keys = { configKey: 'uploads/b/config', weightsKey: 'uploads/b/weights' };
  const begin = async (baseModel: string, config: object) => {
    const begun = await store.adapters.create({ entityId: adapter.entityId, baseModel, ...keys });
    await blobs.put(keys.configKey, Buffer.from(JSON.stringify(config)));
    await blobs.put(keys.weightsKey, Buffer.from('{}'));
    return imports.commit(begun);
  };
  await begin('second', { base_model_name_or_path: 'second' });
  expect(transfers.lastRequest?.modelPath).toBe('/second.gguf');
  // A name that this service does not know may be the same model.
  await begin('second', { base_model_name_or_path: 'elsewhere/second' });
  await expect(begin('base', { base_model_name_or_path: 'second' })).rejects.toThrow(
    '`base_model_name_or_path` of adapter_config.json is second, but the upload was started for base',
  );
  await expect(begin('gone', {})).rejects.toThrow('the adapter is based on gone, which is not served now');
});

test.each(['before its files are read', 'while they are read', 'and the import goes through'])(
  'an adapter that is deleted %s is gone, with any result of the import',
  async (when) => {
    if (when.startsWith('before'))
      vi.spyOn(blobs, 'get').mockImplementationOnce(() => deleteAdapter().then(() => blobs.get('uploads/a/config')));
    else
      transfers.behave = async () => {
        await deleteAdapter();
        if (when.startsWith('while'))
          throw new TransferError({ code: 'trainer.adapter_invalid', message: 'ENOENT /a/folder' });
      };
    await expect(imports.commit(adapter)).rejects.toMatchObject({ code: 'request.not_found' });
    // The answer waits neither for the deletion nor for running work.
    await expect.poll(kept).toEqual({ files: [], directories: [] });
  },
);

test('an import that cannot be recorded leaves nothing, and can be committed again', async () => {
  vi.spyOn(store.adapters, 'finishImport').mockRejectedValueOnce(new Error('disk full'));
  await expect(imports.commit(adapter)).rejects.toThrow('disk full');
  expect((await kept()).directories).toEqual([]);
  expect((await imports.commit(adapter)).content?.digest).toBe('d');
});

test('a commit that reached the disk despite an error is reported as done, and keeps its files', async () => {
  const finishImport = store.adapters.finishImport.bind(store.adapters);
  vi.spyOn(store.adapters, 'finishImport').mockImplementationOnce(async (...input) => {
    await finishImport(...input);
    throw new StoreError('store.unavailable', 'disk I/O error');
  });
  const committed = await imports.commit(adapter);
  expect((await kept()).directories).toEqual([committed.content?.directoryKey]);
});

test.each(['stageDirectory', 'commitDirectory'] as const)(
  'blobs that are away for a moment make an import wait: %s',
  async (method) => {
    const call = vi.spyOn(blobs, method);
    call.mockRejectedValueOnce(new StoreError('store.unavailable', 'the file system does not answer'));
    const committed = await imports.commit(adapter);
    expect(call.mock.calls.length).toBeGreaterThan(1);
    expect((await kept()).directories).toEqual([committed.content?.directoryKey]);
  },
);

test.each(['localFile', 'get'] as const)(
  'an adapter that another process commits during the file check is committed: %s',
  async (method) => {
    const look = vi.spyOn(blobs, method) as Mock<(key: string) => Promise<unknown>>;
    look.mockImplementationOnce(async (key) => {
      await imports.commit(adapter);
      return await blobs[method](key);
    });
    expect((await imports.commit(adapter)).content?.digest).toBe('d');
  },
);

test('more imports than may wait are refused at once, and there is room again when some are done', async () => {
  const opened = Promise.withResolvers<void>();
  transfers.behave = () => opened.promise;
  const accepted = Array.from({ length: 16 }, () => imports.commit(adapter));
  await expect(imports.commit(adapter)).rejects.toMatchObject({
    code: 'request.too_many',
    headers: { 'retry-after': '5' },
  });
  opened.resolve();
  await Promise.all(accepted);
  expect((await imports.commit(adapter)).content?.digest).toBe('d');
});

test('an import that another process runs is waited for, and fails here with the same words', async () => {
  await imports.stop();
  const other = await openTestStore(directory);
  const there = newWorker(other);
  imports = newWorker();
  const invalid = new TransferError({ code: 'trainer.adapter_invalid', message: 'it has no tensors' });
  transfers.behave = () => Promise.reject(invalid);
  there.start();
  await expect(imports.commit(adapter)).rejects.toMatchObject({
    name: 'JobFault',
    code: 'trainer.adapter_invalid',
    message: 'it has no tensors',
  });
  transfers.behave = async () => {};
  expect((await imports.commit(adapter)).content?.digest).toBe('d');
  await there.stop();
  await other.close();
});

test('a commit without a trainer of its base model reports that after a while; the import starts with such a trainer', async () => {
  await imports.stop();
  // As in an API-only process.
  const asked = newWorker(store, { baseModels: [], maxAbsenceMs: 700 });
  const refusal = {
    code: 'server.unavailable',
    message: expect.stringContaining('No running trainer has the base model base of the adapter') as string,
    headers: { 'retry-after': '30' },
  };
  await expect(asked.commit(adapter)).rejects.toMatchObject(refusal);
  const facts = { capacity: 1, adapterDigests: [], url: null, version: '1' };
  const register = (id: string, isDraining = false) =>
    store.members.register(
      {
        ...facts,
        role: 'trainer',
        baseModels: [{ id, fileDigest: null, vocabSize: null }],
        isDraining,
        machineTrouble: null,
      },
      60_000,
    );
  await register('second');
  await expect(asked.commit(adapter)).rejects.toMatchObject(refusal);
  await register('base', true);
  await expect(asked.commit(adapter)).rejects.toMatchObject(refusal);
  await register('base');
  const answer = asked.commit(adapter);
  // It is registered, and takes its time.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  imports = newWorker(store, { baseModels: ['base'] });
  imports.start();
  expect((await answer).content?.digest).toBe('d');
  // One import served all requests.
  expect(transfers.numImports).toBe(1);
  await asked.stop();
});

test('a trainer that comes in time is waited for', async () => {
  await imports.stop();
  const asked = newWorker(store, { baseModels: [], maxAbsenceMs: 60_000 });
  const answer = asked.commit(adapter);
  imports = newWorker(store, { baseModels: ['base'] });
  imports.start();
  expect((await answer).content?.digest).toBe('d');
  await asked.stop();
});

test('a stop notifies the waiting caller and releases the import: the next start finishes it', async () => {
  const reached = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  transfers.behave = (signal) => {
    reached.resolve();
    signal.addEventListener('abort', () => opened.reject(signal.reason as Error), { once: true });
    return opened.promise;
  };
  const refused = imports.commit(adapter).catch((error: unknown) => error);
  await reached.promise;
  await imports.stop();
  expect(await refused).toMatchObject({ code: 'server.unavailable' });
  transfers.behave = async () => {};
  imports = newWorker();
  imports.start();
  await expect.poll(async () => (await store.adapters.get(adapter.id))?.content?.digest).toBe('d');
});

test('an adapter that is deleted while it is imported is let go at once', async () => {
  const reached = Promise.withResolvers<AbortSignal>();
  transfers.behave = (signal) => {
    reached.resolve(signal);
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  };
  const gone = imports.commit(adapter).catch((error: unknown) => error);
  const { aborted: before } = await reached.promise;
  await deleteAdapter();
  await imports.cancelAdapter(adapter.id);
  expect([before, (await reached.promise).aborted]).toEqual([false, true]);
  expect(await gone).toMatchObject({ code: 'request.not_found' });
  expect(await kept()).toEqual({ files: [], directories: [] });
});

test('imports of all processes together are bounded', async () => {
  await imports.stop();
  imports = newWorker();
  const keys = { configKey: 'uploads/b/config', weightsKey: 'uploads/b/weights' };
  for (let index = 0; index < 16; index++) {
    const { id } = await store.adapters.create({ entityId: adapter.entityId, baseModel: 'base', ...keys });
    await store.adapters.enqueueImport(id);
  }
  await expect(imports.commit(adapter)).rejects.toMatchObject({ code: 'request.too_many' });
  expect(transfers.numImports).toBe(0);
});

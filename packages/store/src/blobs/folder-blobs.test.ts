import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { blobsSuite } from '../testing/blobs.suite.ts';
import { folderHarness } from '../testing/folder-harness.ts';
import { StoreError } from '../contract/errors.ts';
import { fileFault } from './file-fault.ts';
import { FolderBlobs } from './folder-blobs.ts';

blobsSuite('FolderBlobs', folderHarness);

describe('FolderBlobs on disk', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'trainyard-blobs-'));
  });
  afterEach(() => rm(root, { recursive: true }));

  it('JSON is plain zstd that any tool can read', async () => {
    const blobs = await FolderBlobs.open(root);
    await blobs.putJsonLines('logs/1', [{ a: 1 }, 'b']);
    const bytes = await readFile(join(root, 'files/logs/1.jsonl.zst'));
    expect(zstdDecompressSync(bytes).toString()).toBe('{"a":1}\n"b"\n');
    await blobs.close();
  });

  it('a damaged or shortened file is corrupt', async () => {
    const blobs = await FolderBlobs.open(root);
    const value = Array.from({ length: 5000 }, (_, i) => ({ i, noise: Math.sin(i) }));
    await blobs.putJson('value', value);
    const path = join(root, 'files/value.json.zst');
    const bytes = await readFile(path);
    const corrupt = expect.objectContaining({ code: 'store.blob_corrupt', message: expect.stringContaining('value') });
    for (const offset of [0, bytes.length >> 1, bytes.length - 1]) {
      const damaged = Buffer.from(bytes);
      damaged[offset] = (damaged[offset] ?? 0) ^ 0x5a;
      await writeFile(path, damaged);
      await expect(blobs.getJson('value'), `byte ${offset}`).rejects.toEqual(corrupt);
    }
    await writeFile(path, bytes);
    expect(await blobs.getJson('value')).toEqual(value);
    for (const size of [bytes.length - 1, bytes.length >> 1, 0]) {
      await truncate(path, size);
      await expect(blobs.getJson('value'), `${size} bytes`).rejects.toEqual(corrupt);
    }
    await blobs.close();
  });

  it('opening removes files of dead processes, and none of living ones or of other hosts', async () => {
    const dead = spawnSync(process.execPath, ['-e', '']).pid;
    const uuid = crypto.randomUUID();
    const keep = [`${hostname()}.${process.ppid}.${uuid}`, `elsewhere.${dead}.${uuid}`, 'not-ours'];
    const remove = [`${hostname()}.${dead}.${uuid}`, `${hostname()}.${process.pid}.${uuid}`];
    for (const name of [...keep, ...remove]) {
      await mkdir(join(root, 'staging', name, 'half-written'), { recursive: true });
      await writeFile(join(root, 'staging', name, 'half-written', 'adapter'), 'x');
    }
    const first = await FolderBlobs.open(root);
    const staged = await first.stageDirectory();
    const second = await FolderBlobs.open(root);
    const left = await readdir(join(root, 'staging'));
    expect(left.filter((name) => remove.includes(name))).toEqual([]);
    expect(left.filter((name) => keep.includes(name))).toHaveLength(keep.length);
    expect((await stat(staged)).isDirectory()).toBe(true);
    await first.close();
    await second.close();
    expect(await readdir(join(root, 'staging'))).toHaveLength(keep.length);
  });

  it('nothing half-written is left after a failure', async () => {
    const blobs = await FolderBlobs.open(root);
    async function* failing(): AsyncGenerator<Buffer> {
      yield Buffer.from('half');
      throw new Error('gone');
    }
    await expect(blobs.put('key', failing())).rejects.toThrow('gone');
    const [area = ''] = await readdir(join(root, 'staging'));
    expect(await readdir(join(root, 'staging', area))).toEqual([]);
    await blobs.close();
  });

  it('only the owner may read', async () => {
    const blobs = await FolderBlobs.open(root);
    await blobs.put('a/b', Uint8Array.of(1));
    expect((await stat(join(root, 'files/a/b.bin'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(root, 'files/a'))).mode & 0o777).toBe(0o700);
    await blobs.close();
  });

  it('a folder that cannot be created is unavailable', async () => {
    await writeFile(join(root, 'file'), 'x');
    await expect(FolderBlobs.open(join(root, 'file'))).rejects.toMatchObject({ code: 'store.unavailable' });
  });

  it.runIf(process.platform === 'linux')('a full disk has its own code', async () => {
    // /dev/full answers every write with a real ENOSPC.
    const error: unknown = await writeFile('/dev/full', 'x').catch((reason: unknown) => reason);
    const fault = fileFault(error, 'blob key');
    expect(fault).toBeInstanceOf(StoreError);
    expect(fault).toMatchObject({ code: 'store.disk_full', cause: error });
  });
});

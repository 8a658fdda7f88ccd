import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { blobSafetySuite } from '../../testing/blob-safety.ts';
import { blobsSuite } from '../../testing/blobs.suite.ts';
import { memoryHarness } from '../../testing/memory-harness.ts';
import { S3Blobs, type S3Location } from './s3-blobs.ts';
import { S3Bucket } from './s3-bucket.ts';
import { CREDENTIALS, REGION, S3Server } from '../../testing/s3-server.ts';
import { type UnreliableNetwork, unreliableNetwork } from '../../testing/unreliable-network.ts';

let server: S3Server;
let network: UnreliableNetwork;
beforeAll(async () => {
  const program = process.env['TRAINYARD_TEST_S3_SERVER'];
  assert(program !== undefined, 'the project `s3` starts the server');
  server = await S3Server.start(program);
  network = await unreliableNetwork(server.origin);
});
afterAll(async () => {
  await network.close();
  await server.stop();
});

for (const [name, originOf] of [
  ['S3Blobs', () => server.origin],
  ['S3Blobs, every fifth request meets a fault', () => network.origin],
] as const) {
  const harness = async () => {
    const { pathname } = new URL(await server.createBucket());
    const folder = await mkdtemp(join(tmpdir(), 'trainyard-cache-'));
    const handles: S3Blobs[] = [];
    return {
      async open() {
        // Each handle has its own cache, as on several machines.
        const cacheDirectory = join(folder, String(handles.length));
        const url = `${originOf()}${pathname}/some/prefix`;
        const location: S3Location = { kind: 's3', url, region: REGION, cacheDirectory, cacheBytes: 1e9 };
        handles.push(await S3Blobs.open(location, CREDENTIALS));
        return handles.at(-1)!;
      },
      async destroy() {
        for (const blobs of handles) await blobs.close();
        await rm(folder, { recursive: true });
      },
    };
  };
  blobsSuite(name, harness);
  blobSafetySuite(memoryHarness, harness);
}

it('an object that is too large for one copy is moved in parts, with its digest', async () => {
  const bucket = new S3Bucket({
    url: await server.createBucket(),
    region: REGION,
    credentials: CREDENTIALS,
    copyBytes: 5 * 2 ** 20,
  });
  const bytes = randomBytes(12 * 2 ** 20);
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-move-'));
  await writeFile(join(folder, 'large'), bytes);
  await bucket.putFile('some/large', join(folder, 'large'), { sizeBytes: bytes.length, sha256 });
  expect([await bucket.move('some/large', 'bin/large'), await bucket.move('some/large', 'x')]).toEqual([true, false]);
  expect(await bucket.head('some/large')).toBeNull();
  expect(await bucket.head('bin/large')).toMatchObject({ sizeBytes: bytes.length, sha256 });
  expect(await bucket.download('bin/large', join(folder, 'again'))).toEqual({ sizeBytes: bytes.length, sha256 });
  await rm(folder, { recursive: true });
});

describe('S3Blobs in a bucket', () => {
  let url: string;
  let bucket: string;
  let folder: string;
  let second: S3Client;
  let handles: S3Blobs[];
  beforeEach(async () => {
    url = await server.createBucket();
    bucket = new URL(url).pathname.slice(1);
    folder = await mkdtemp(join(tmpdir(), 'trainyard-cache-'));
    second = new S3Client({ endpoint: server.origin, region: REGION, credentials: CREDENTIALS, forcePathStyle: true });
    handles = [];
  });
  afterEach(async () => {
    second.destroy();
    for (const blobs of handles) await blobs.close();
    await rm(folder, { recursive: true });
  });

  async function open(options: Partial<S3Location> & Parameters<typeof S3Blobs.open>[2] = {}): Promise<S3Blobs> {
    const { abandonedAfterMs, cacheKeepsMs, onRepair, ...rest } = options;
    const cacheDirectory = join(folder, String(handles.length));
    const location: S3Location = { kind: 's3', url, region: REGION, cacheDirectory, cacheBytes: 1e9, ...rest };
    const limits = {
      ...(abandonedAfterMs === undefined ? {} : { abandonedAfterMs }),
      ...(cacheKeepsMs === undefined ? {} : { cacheKeepsMs }),
      ...(onRepair === undefined ? {} : { onRepair }),
    };
    handles.push(await S3Blobs.open(location, CREDENTIALS, limits));
    return handles.at(-1)!;
  }

  async function names(): Promise<string[]> {
    const { Contents = [] } = await second.send(new ListObjectsV2Command({ Bucket: bucket }));
    return Contents.map(({ Key }) => Key!);
  }

  async function stagedFolder(blobs: S3Blobs, content: Uint8Array): Promise<string> {
    const staged = await blobs.stageDirectory();
    await mkdir(join(staged, 'nested'));
    await writeFile(join(staged, 'nested/weights'), content);
    await writeFile(join(staged, 'empty'), '');
    return staged;
  }

  it('objects of several parts can be read by another client, with their digest next to them', async () => {
    const blobs = await open();
    // More than two parts.
    const bytes = randomBytes(2 * 8 * 2 ** 20 + 5);
    expect(await blobs.put('groups/large', bytes)).toEqual({ sizeBytes: bytes.length });
    const object = await second.send(new GetObjectCommand({ Bucket: bucket, Key: 'files/groups/large.bin' }));
    const read = Buffer.from(await object.Body!.transformToByteArray());
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    expect(createHash('sha256').update(read).digest('hex')).toBe(sha256);
    expect(object.Metadata).toEqual({ sha256 });
    expect(Buffer.compare(Buffer.from(await (await open()).get('groups/large')), bytes)).toBe(0);
  });

  it('bytes that changed in the bucket are corrupt, of files and of directories', async () => {
    const blobs = await open();
    await blobs.put('file', Buffer.from('as it was'));
    await blobs.commitDirectory(await stagedFolder(blobs, Buffer.from('weights')), 'checkpoints/1');
    const objects = await names();
    const weights = objects.find((name) => name.endsWith('nested/weights'))!;
    for (const [Key, Metadata] of [
      ['files/file.bin', { sha256: createHash('sha256').update('as it was').digest('hex') }],
      [weights, {}],
    ] as const)
      await second.send(new PutObjectCommand({ Bucket: bucket, Key, Body: 'as it is!', Metadata }));
    const other = await open();
    const corrupt = { code: 'store.blob_corrupt' };
    await expect(other.get('file')).rejects.toMatchObject(corrupt);
    await expect(other.localDirectory('checkpoints/1')).rejects.toMatchObject(corrupt);
    // The writer's copies are unchanged.
    expect(String(await readFile(join((await blobs.localDirectory('checkpoints/1'))!, 'nested/weights')))).toBe(
      'weights',
    );
  });

  it('a directory that is wanted without a file is downloaded without it', async () => {
    const first = await open();
    await first.commitDirectory(await stagedFolder(first, Buffer.from('weights')), 'checkpoints/1');
    const other = await open();
    for (let time = 0; time < 2; time++)
      expect(await readdir((await other.localDirectory('checkpoints/1', { without: ['nested/weights'] }))!)).toEqual([
        'empty',
      ]);
    const whole = (await other.localDirectory('checkpoints/1'))!;
    expect(String(await readFile(join(whole, 'nested/weights')))).toBe('weights');
    expect(await other.localDirectory('checkpoints/1', { without: ['nested/weights'] })).toBe(whole);
  });

  it('a copy in the cache that was damaged is downloaded again, of files and of directories', async () => {
    const repaired: string[] = [];
    const cacheDirectory = join(folder, 'damaged');
    const blobs = await open({ cacheDirectory, onRepair: (line) => repaired.push(line) });
    await blobs.put('file', Buffer.from('as it was'));
    await blobs.commitDirectory(await stagedFolder(blobs, Buffer.from('weights')), 'checkpoints/1');
    const file = (await blobs.localFile('file'))!;
    const weights = join((await blobs.localDirectory('checkpoints/1'))!, 'nested/weights');
    await writeFile(file, 'as it is!');
    await writeFile(weights, 'weightS');
    expect(String(await blobs.get('file'))).toBe('as it was');
    const other = await open({ cacheDirectory, onRepair: (line) => repaired.push(line) });
    const again = (await other.localDirectory('checkpoints/1'))!;
    expect(String(await readFile(join(again, 'nested/weights')))).toBe('weights');
    expect(repaired).toHaveLength(2);
    await rm(join(again, 'empty'));
    const third = await open({ cacheDirectory });
    expect(await readdir((await third.localDirectory('checkpoints/1'))!)).toEqual(expect.arrayContaining(['empty']));
  });

  it('a directory exists with its manifest, and one without is removed after its time', async () => {
    const blobs = await open();
    const leftover = 'directories/checkpoints/1.dir/00000000-0000-4000-8000-000000000000/weights';
    await second.send(new PutObjectCommand({ Bucket: bucket, Key: leftover, Body: 'of a process that died' }));
    expect(await blobs.localDirectory('checkpoints/1')).toBeNull();
    expect(await blobs.listDirectories()).toEqual([]);
    await blobs.commitDirectory(await stagedFolder(blobs, Buffer.from('weights')), 'checkpoints/1');
    expect(await blobs.listDirectories()).toEqual(['checkpoints/1']);
    expect(await names()).toContain(leftover);
    await blobs.commitDirectory(await stagedFolder(blobs, Buffer.from('weights')), 'checkpoints/2');
    await blobs.discard({ kind: 'directory', key: 'checkpoints/2' }, 1_000);
    await (await open()).removeUnfinished();
    expect(await names()).toContain(leftover);
    const later = await open({ abandonedAfterMs: -5_000 });
    // This machine's clock has no effect.
    const ahead = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 40 * 24 * 3_600_000);
    await (await open()).removeUnfinished();
    ahead.mockRestore();
    expect(await names()).toContain(leftover);
    await later.removeUnfinished();
    expect(await later.listDirectories()).toEqual(['checkpoints/1']);
    expect(await names()).not.toContain(leftover);
    expect(await later.restore({ kind: 'directory', key: 'checkpoints/2', binnedAt: 1_000 })).toBe(true);
    expect(await readdir((await later.localDirectory('checkpoints/2'))!)).toContain('nested');
    await later.removeDirectory('checkpoints/2');
    const path = (await later.localDirectory('checkpoints/1'))!;
    expect((await readdir(path, { recursive: true })).toSorted()).toEqual(['empty', 'nested', 'nested/weights']);
    expect(await later.removeDirectory('checkpoints/1')).toBe(true);
    expect(await names()).toEqual([]);
  });

  it('who looks on while a directory is committed finds nothing, or all of it', async () => {
    const [writer, reader] = [await open(), await open()];
    const staged = await writer.stageDirectory();
    const expected = Array.from({ length: 40 }, (_, i) => `part-${String(i).padStart(2, '0')}`);
    for (const name of expected) await writeFile(join(staged, name), name);
    let isOver = false;
    const committing = writer.commitDirectory(staged, 'checkpoints/1').finally(() => (isOver = true));
    let numLooks = 0;
    for (; !isOver; numLooks++) {
      const path = await reader.localDirectory('checkpoints/1');
      if (path !== null) expect((await readdir(path)).toSorted()).toEqual(expected);
    }
    await committing;
    expect(numLooks).toBeGreaterThan(1);
    expect((await readdir((await reader.localDirectory('checkpoints/1'))!)).toSorted()).toEqual(expected);
  });

  it('a machine with a full disk reports it, keeps nothing of the download, and succeeds once there is space', async (context) => {
    const weights = randomBytes(3 * 2 ** 20);
    const blobs = await open();
    await blobs.commitDirectory(await stagedFolder(blobs, weights), 'checkpoints/1');
    await blobs.put('large', weights);
    const small = join(folder, 'small');
    await mkdir(small);
    try {
      mount('-t', 'tmpfs', '-o', 'size=1m', 'small', small);
    } catch {
      context.skip('a small file system takes the right to mount');
    }
    try {
      const other = await open({ cacheDirectory: small });
      const full = { code: 'store.disk_full' };
      await expect(other.localDirectory('checkpoints/1')).rejects.toMatchObject(full);
      await expect(other.get('large')).rejects.toMatchObject(full);
      const files = (await readdir(small, { recursive: true, withFileTypes: true })).filter((one) => one.isFile());
      expect(files.filter(({ name }) => /weights|empty/.test(name))).toEqual([]);
      expect((await statfs(small)).bfree).toBeGreaterThan((2 ** 20 / 4096) * 0.9);
      mount('-o', 'remount,size=16m', small);
      const path = (await other.localDirectory('checkpoints/1'))!;
      expect(Buffer.compare(await readFile(join(path, 'nested/weights')), weights)).toBe(0);
      expect(Buffer.compare(Buffer.from(await other.get('large')), weights)).toBe(0);
      await other.close();
      handles.splice(handles.indexOf(other), 1);
    } finally {
      execFileSync('umount', ['--lazy', small]);
    }
  });

  it('lists more names than a page has', async () => {
    const blobs = await open();
    const keys = Array.from({ length: 1_100 }, (_, i) => `logs/${i}`);
    for (let i = 0; i < keys.length; i += 50)
      await Promise.all(keys.slice(i, i + 50).map((key) => blobs.put(key, Buffer.from(key))));
    expect(new Set(await blobs.listKeys())).toEqual(new Set(keys));
  });

  it('the cache keeps the last used items, and fetches evicted ones again', async () => {
    const cacheDirectory = join(folder, 'small');
    const blobs = await open({ cacheDirectory, cacheBytes: 2_500, cacheKeepsMs: 0 });
    for (const key of ['a', 'b', 'c', 'd']) await blobs.put(key, randomBytes(1_000));
    expect((await readdir(join(cacheDirectory, 'kept'))).length).toBeLessThanOrEqual(2);
    for (const key of ['a', 'b', 'c', 'd']) expect((await blobs.get(key)).length).toBe(1_000);
    const keeping = await open({ cacheDirectory: join(folder, 'keeping'), cacheBytes: 2_500 });
    for (const key of ['a', 'b', 'c', 'd']) await keeping.get(key);
    expect((await readdir(join(folder, 'keeping/kept'))).length).toBe(4);
  });

  it('reports the fault: the key, the bucket, the address', async () => {
    const location: S3Location = {
      kind: 's3',
      url,
      region: REGION,
      cacheDirectory: join(folder, 'c'),
      cacheBytes: 1e9,
    };
    const opened = (change: Partial<S3Location>, secretAccessKey = CREDENTIALS.secretAccessKey) =>
      S3Blobs.open({ ...location, ...change }, { ...CREDENTIALS, secretAccessKey });
    const unavailable = (words: string) =>
      expect.objectContaining({ code: 'store.unavailable', message: expect.stringContaining(words) });
    await expect(opened({}, 'another')).rejects.toEqual(unavailable('SignatureDoesNotMatch'));
    await expect(opened({ url: `${server.origin}/no-such-bucket` })).rejects.toEqual(unavailable('NoSuchBucket'));
    await expect(opened({ url: 'http://127.0.0.1:1/bucket' })).rejects.toEqual(unavailable('is unreachable'));
  });

  it('an abort ends a put, and nothing is there', async () => {
    const blobs = await open();
    const controller = new AbortController();
    const chunks = async function* () {
      yield Buffer.alloc(1_000);
      controller.abort(new Error('enough'));
      yield Buffer.alloc(1_000);
    };
    await expect(blobs.put('file', chunks(), { signal: controller.signal })).rejects.toThrow('enough');
    expect(await names()).toEqual([]);
  });
});

it('the network did fail in every way', () => {
  console.log(`faults: ${JSON.stringify(network.faults)}`);
  expect(Object.values(network.faults).every((count) => count > 5)).toBe(true);
});

function mount(...args: readonly string[]): void {
  execFileSync('mount', args, { stdio: 'ignore' });
}

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { MemoryBucket } from '../../testing/memory-bucket.ts';
import { S3Blobs } from './s3-blobs.ts';

const KEY = 'checkpoints/1';
const LIST = { path: 'SUMS', text: 'weights' };

async function openBucket() {
  const bucket = await MemoryBucket.start();
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-directory-files-'));
  const opened: S3Blobs[] = [];
  onTestFinished(async () => {
    for (const blobs of opened) await blobs.close();
    await bucket.close();
    await rm(folder, { recursive: true });
  });
  /** Blobs of another machine, with its own cache. */
  const machine = async (name: string) => {
    const location = { kind: 's3', url: bucket.url, region: 'us-east-1', cacheDirectory: join(folder, name) } as const;
    const key = { accessKeyId: 'id', secretAccessKey: 'secret' };
    const blobs = await S3Blobs.open({ ...location, cacheBytes: 1e9 }, key);
    opened.push(blobs);
    return blobs;
  };
  return { bucket, machine };
}

async function commit(blobs: S3Blobs): Promise<void> {
  const staged = await blobs.stageDirectory();
  for (const name of ['weights.bin', 'optimizer.bin', 'SUMS']) await writeFile(join(staged, name), name);
  await blobs.commitDirectory(staged, KEY);
}

test('a path that another machine has stays whole when a file goes, and no object of the former commit is left', async () => {
  const { bucket, machine } = await openBucket();
  const [one, two] = [await machine('one'), await machine('two')];
  await commit(one);
  const former = (await two.localDirectory(KEY))!;
  await one.removeDirectoryFile(KEY, 'optimizer.bin', LIST);
  expect((await readdir(former)).toSorted()).toEqual(['SUMS', 'optimizer.bin', 'weights.bin']);
  const current = (await (await machine('three')).localDirectory(KEY))!;
  expect((await readdir(current)).toSorted()).toEqual(['SUMS', 'weights.bin']);
  expect(await readFile(join(current, 'SUMS'), 'utf8')).toBe('weights');
  // The manifest, the weights and the list.
  expect(bucket.objects.size).toBe(3);
  await one.removeDirectory(KEY);
  expect(bucket.objects.size).toBe(0);
});

test('a download that meets the change restarts with the new version', async () => {
  const { machine } = await openBucket();
  const [one, two] = [await machine('one'), await machine('two')];
  await commit(one);
  // The manifest is read before the change, the files after it.
  const stage = two.stageDirectory.bind(two);
  let numStaged = 0;
  two.stageDirectory = async () => {
    numStaged += 1;
    if (numStaged === 1) await one.removeDirectoryFile(KEY, 'optimizer.bin', LIST);
    return await stage();
  };
  const path = (await two.localDirectory(KEY))!;
  expect(numStaged).toBe(2);
  expect((await readdir(path)).toSorted()).toEqual(['SUMS', 'weights.bin']);
});

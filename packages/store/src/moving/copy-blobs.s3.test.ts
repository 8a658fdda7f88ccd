import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { S3Blobs } from '../blobs/s3/s3-blobs.ts';
import { CREDENTIALS, REGION, S3Server } from '../testing/s3-server.ts';
import { copyBlobs, digestBlobs } from './copy-blobs.ts';

let server: S3Server;
let folder: string;
beforeAll(async () => {
  const program = process.env['TRAINYARD_TEST_S3_SERVER'];
  assert(program !== undefined, 'the project `s3` starts the server');
  server = await S3Server.start(program);
  folder = await mkdtemp(join(tmpdir(), 'trainyard-copy-blobs-'));
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true });
});

test('blobs of a folder are copied into a bucket and back, each verified after writing', async () => {
  const url = await server.createBucket();
  const inBucket = (cache: string) => {
    const cacheDirectory = join(folder, cache);
    return S3Blobs.open({ kind: 's3', url, region: REGION, cacheDirectory, cacheBytes: 1e9 }, CREDENTIALS);
  };
  const from = await FolderBlobs.open(join(folder, 'from'));
  await from.put('uploads/large', Buffer.alloc(9_000_000, 'x'));
  await from.putJson('places/p', {});
  await from.putJsonLines('groups/1', [{ a: 1 }, { a: 2 }]);
  const staged = await from.stageDirectory();
  await writeFile(join(staged, 'weights.bin'), Buffer.alloc(1_000_000, 'y'));
  await from.commitDirectory(staged, 'checkpoints/1');
  const expected = await digestBlobs(from);
  expect(expected).toHaveLength(4);

  const [bucket, unread, third] = [await inBucket('one'), await inBucket('two'), await inBucket('three')];
  // A second time it is compared.
  for (let time = 0; time < 2; time++)
    expect(await copyBlobs(from, bucket, { readBack: unread })).toEqual({ files: expected, missing: [] });
  const back = await FolderBlobs.open(join(folder, 'back'));
  expect((await copyBlobs(third, back)).files).toEqual(expected);
  expect(await Array.fromAsync(back.getJsonLines('groups/1'))).toEqual([{ a: 1 }, { a: 2 }]);
  for (const blobs of [from, bucket, unread, third, back]) await blobs.close();
});

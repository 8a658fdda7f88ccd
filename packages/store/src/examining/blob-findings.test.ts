import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { blobFindings } from './blob-findings.ts';

const KEY = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };
/** Faults of an S3 server. */
type Fault = 'replaces' | 'changes' | 'keeps' | 'refuses' | null;

/** Bucket with as much of S3 as the check needs, and one fault. */
async function bucketWith(fault: Fault): Promise<{ url: string; objects: Map<string, Buffer> }> {
  const objects = new Map<string, Buffer>();
  const answer = (request: IncomingMessage, body: Buffer): [status: number, body?: Buffer] => {
    const name = (request.url ?? '').split('?')[0] ?? '';
    if (fault === 'refuses') return [403];
    if (request.method === 'PUT') {
      const isTaken = request.headers['if-none-match'] === '*' && objects.has(name);
      if (isTaken && fault !== 'replaces') return [412];
      objects.set(name, fault === 'changes' ? Buffer.from('something else') : body);
      return [200];
    }
    if (request.method === 'DELETE') {
      if (fault !== 'keeps') objects.delete(name);
      return [204];
    }
    if (name === '/bucket') return [200, Buffer.from('<ListBucketResult/>')];
    const object = objects.get(name);
    return object === undefined ? [404] : [200, request.method === 'HEAD' ? Buffer.alloc(0) : object];
  };
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const [status, body] = answer(request, Buffer.concat(pieces));
      response.writeHead(status).end(body);
    });
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/bucket`, objects };
}

const look = async (url: string, environment: Record<string, string> = KEY) =>
  await Array.fromAsync(
    blobFindings({ kind: 's3', url, region: 'us-east-1', cacheDirectory: '/nowhere', cacheBytes: 1 }, environment),
  );

test.each<[Fault, RegExp | null]>([
  [null, null],
  ['replaces', /ignores If-None-Match/],
  ['changes', /other data than was written/],
  ['keeps', /a removed object still exists/],
  ['refuses', /answered 403/],
])('a bucket that %s', async (fault, problem) => {
  const { url, objects } = await bucketWith(fault);
  const [finding, ...others] = await look(url);
  expect(others).toEqual([]);
  expect(finding?.subject).toBe(`bucket ${new URL(url).host}/bucket`);
  if (problem === null) expect(finding?.problem).toBeNull();
  else expect(finding?.problem).toMatch(problem);
  if (fault !== 'keeps') expect([...objects.keys()]).toEqual([]);
});

test('a bucket without a key, or a missing one', async () => {
  expect((await look('http://127.0.0.1:9/bucket', {}))[0]?.problem).toContain('AWS_ACCESS_KEY_ID');
  expect((await look('http://127.0.0.1:9/bucket'))[0]?.problem).toMatch(/is unreachable/);
}, 20_000);

test('a folder of blobs is written and read, and left as it was; one that is not there is not made', async () => {
  const root = await mkdtemp(join(tmpdir(), 'trainyard-findings-'));
  onTestFinished(() => rm(root, { recursive: true }));
  const folder = join(root, 'blobs');
  const findings = () => Array.fromAsync(blobFindings({ kind: 'folder', root: folder }));
  expect(await findings()).toEqual([]);
  expect(await readdir(root)).toEqual([]);
  await (await FolderBlobs.open(folder)).close();
  expect(await findings()).toEqual([{ name: 'blobs', subject: `blobs in ${folder}`, problem: null }]);
  const blobs = await FolderBlobs.open(folder);
  expect(await blobs.listKeys()).toEqual([]);
  await blobs.close();
});

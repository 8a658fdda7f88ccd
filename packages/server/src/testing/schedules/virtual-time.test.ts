import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { createZstdCompress, createZstdDecompress } from 'node:zlib';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { VirtualTime } from './virtual-time.ts';

/** Work for other threads of tens of milliseconds, while the event loop is idle. */
const NUM_BYTES = 30_000_000;
/** The same for files, whose parts each count as work: on a busy machine they take seconds together. */
const NUM_FILE_BYTES = 10_000_000;
/** A close of a file is short: among so many, another thread is late for one. */
const NUM_FILES = 300;

let time: VirtualTime;
beforeEach(() => {
  time = new VirtualTime();
  time.begin();
});
afterEach(() => time.end());

test('without pending work hours pass at once, and timers fire in the order in which they are due', async () => {
  const fired: string[] = [];
  const later = async (name: string, ms: number) => {
    await time.sleep(ms);
    fired.push(name);
  };
  const since = Date.now();
  await Promise.all([later('an hour', 3_600_000), later('a second', 1_000), later('a day', 86_400_000)]);
  expect(fired).toEqual(['a second', 'an hour', 'a day']);
  expect(Date.now() - since).toBeGreaterThanOrEqual(86_400_000);
  expect(Date.now() - since).toBeLessThan(86_401_000);
});

test('no timer of a minute fires while bytes are packed and unpacked by another thread', async () => {
  const bytes = randomBytes(NUM_BYTES);
  const fired: string[] = [];
  void time.sleep(60_000).then(() => fired.push('a minute'));
  const packed = await buffer(Readable.from([bytes]).pipe(createZstdCompress()));
  const unpacked = await buffer(Readable.from([packed]).pipe(createZstdDecompress()));
  expect(fired).toEqual([]);
  expect(unpacked.equals(bytes)).toBe(true);
  await time.sleep(60_000);
  expect(fired).toEqual(['a minute']);
});

test('no timer of a minute fires while a file is written and read', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'ty-'));
  const fired: string[] = [];
  void time.sleep(60_000).then(() => fired.push('a minute'));
  await writeFile(join(directory, 'bytes'), new Uint8Array(NUM_FILE_BYTES));
  expect((await readFile(join(directory, 'bytes'))).length).toBe(NUM_FILE_BYTES);
  expect(fired).toEqual([]);
  rmSync(directory, { recursive: true });
});

test('no timer of a minute fires while a file is closed', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'ty-'));
  const fired: string[] = [];
  void time.sleep(60_000).then(() => fired.push('a minute'));
  for (let i = 0; i < NUM_FILES; i++) await writeFile(join(directory, `${i}`), '');
  expect(fired).toEqual([]);
  rmSync(directory, { recursive: true });
});

test('long pending work takes a tenth of a second, and two at once no longer than one', async () => {
  const [first, second] = [time.underWay(), time.underWay()];
  const since = time.now;
  while (time.now - since < 99) await new Promise(setImmediate);
  first();
  for (let turn = 0; turn < 1_000; turn++) await new Promise(setImmediate);
  expect(time.now - since).toBeLessThan(150);
  second();
  await time.sleep(1_000);
  expect(time.now - since).toBeGreaterThanOrEqual(1_000);
});

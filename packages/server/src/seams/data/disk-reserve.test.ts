import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateSync } from 'node:zlib';

import { afterAll, expect, test } from 'vitest';

import { DiskReserve } from './disk-reserve.ts';

const folder = mkdtempSync(join(tmpdir(), 'trainyard-reserve-'));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'reserve');

/** A disk with a given amount of free space. */
class Disk extends DiskReserve {
  bytes = 1e9;
  override get freeBytes(): number {
    return this.bytes;
  }
}

test('the reserve is written, kept while there is room, and given up when the disk is full', async () => {
  const disk = new Disk(folder);
  disk.take();
  expect(statSync(path).size).toBe(8 * 1024 * 1024);
  disk.release();
  expect(statSync(path).size).toBe(8 * 1024 * 1024);
  expect(await disk.timeSync()).toBeGreaterThan(0);
  disk.bytes = 100_000;
  expect(disk.isDiskFull).toBe(true);
  disk.release();
  expect(() => statSync(path)).toThrow('ENOENT');
  expect(await disk.timeSync()).toBeNull();
  disk.release();
});

test('the content of the reserve takes space even on a compressing file system', () => {
  new Disk(folder).take();
  const bytes = readFileSync(path);
  expect(deflateSync(bytes, { level: 1 }).length).toBeGreaterThan(bytes.length * 0.99);
});

test('the free room of the disk is read from the system', () => {
  const before = new DiskReserve(folder).freeBytes!;
  writeFileSync(join(folder, 'large'), Buffer.alloc(40_000_000, 1));
  expect(before).toBeGreaterThan(0);
});

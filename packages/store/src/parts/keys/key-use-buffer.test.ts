import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { StoreError } from '../../contract/errors.ts';
import type { Tables } from '../tables.ts';
import { KeyUseBuffer } from './key-use-buffer.ts';

let fault: StoreError | null;
let written: [keyId: string, at: number][];
let numWrites: number;
let buffer: KeyUseBuffer;

beforeEach(() => {
  vi.useFakeTimers({ now: 0 });
  onTestFinished(() => void vi.useRealTimers());
  [fault, written, numWrites] = [null, [], 0];
  const setLastUsed = async (keyId: string, at: number) => void written.push([keyId, at]);
  buffer = new KeyUseBuffer({
    now: () => Date.now(),
    write: async (body) => {
      numWrites += 1;
      if (fault !== null) throw fault;
      return await body({ keys: { setLastUsed } } as unknown as Tables);
    },
  });
});

const pass = async (ms: number) => void (await vi.advanceTimersByTimeAsync(ms));

test('uses of a second share a write, and a key is written once a minute', async () => {
  for (let second = 0; second < 150; second++) {
    buffer.add('a');
    if (second % 70 === 0) buffer.add('b');
    await pass(1_000);
  }
  expect(written).toEqual([
    ['a', 0],
    ['b', 0],
    ['a', 60_000],
    ['b', 70_000],
    ['a', 120_000],
    ['b', 140_000],
  ]);
  expect([numWrites, vi.getTimerCount()]).toEqual([5, 0]);
});

test('a failed write is repeated a minute later, with the newest use of each key', async () => {
  fault = new StoreError('store.disk_full', 'full');
  for (const keyId of ['a', 'b']) buffer.add(keyId);
  await pass(60_000);
  buffer.add('a');
  expect([written, numWrites]).toEqual([[], 1]);
  fault = null;
  await pass(1_000);
  expect([written, numWrites]).toEqual([
    [
      ['a', 60_000],
      ['b', 0],
    ],
    2,
  ]);
});

test('a flush writes at once, and does not reject when the write fails', async () => {
  buffer.add('a');
  await buffer.flush();
  expect(written).toEqual([['a', 0]]);
  fault = new StoreError('store.unavailable', 'away');
  buffer.add('b');
  await buffer.flush();
  expect(vi.getTimerCount()).toBe(1);
});

test('uses after the end of the database are tried once, not forever', async () => {
  fault = new StoreError('store.closed', 'closed');
  buffer.add('a');
  await pass(1_000);
  expect([numWrites, vi.getTimerCount()]).toEqual([1, 0]);
});

test('a clock that is set back does not stop the record', async () => {
  vi.setSystemTime(1_000_000);
  buffer.add('a');
  vi.setSystemTime(0);
  buffer.add('a');
  await buffer.flush();
  expect(written).toEqual([['a', 0]]);
});

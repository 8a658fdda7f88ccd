import { expect, test } from 'vitest';

import { MachineWatch } from './machine-watch.ts';
import type { Use } from './thread-use.ts';

function watched() {
  const lines: string[] = [];
  const state = {
    files: { used: 10, limit: 100 } as Use | null,
    threads: null as Use | null,
    freeBytes: 1e9,
    syncMs: 2 as number | null,
    now: 0,
    numScans: 0,
  };
  const watch = new MachineWatch({
    disk: {
      get freeBytes() {
        return state.freeBytes;
      },
      get isDiskFull() {
        return state.freeBytes < 8e6;
      },
      timeSync: async () => state.syncMs,
    },
    figures: {
      openFiles: () => state.files,
      threads: () => {
        state.numScans++;
        return state.threads;
      },
    },
    log: (line) => lines.push(line),
    now: () => state.now,
  });
  return { watch, state, lines };
}

test('nothing is reported while all is well', async () => {
  const { watch, lines } = watched();
  await watch.look();
  expect(watch.problem).toBeNull();
  expect(lines).toEqual([]);
});

test('file handles are reported before they are used up, once, and again after they were free', async () => {
  const { watch, state, lines } = watched();
  state.files = { used: 86, limit: 100 };
  await watch.look();
  await watch.look();
  expect(lines).toEqual([
    '86 of 100 file handles are in use: at the limit, connections are reset. Raise the limit (ulimit -n, LimitNOFILE)',
  ]);
  expect(watch.problem).toBe(lines[0]);
  state.files = { used: 20, limit: 100 };
  await watch.look();
  expect(watch.problem).toBeNull();
  state.files = { used: 99, limit: 100 };
  await watch.look();
  expect(lines).toHaveLength(2);
});

test('probes and scrapes between two looks read the figures once, and a burst of connections counts no threads', async () => {
  const { watch, state } = watched();
  await watch.look();
  for (let probe = 0; probe < 50; probe++) expect([watch.problem, watch.state.threads]).toEqual([null, null]);
  for (let i = 0; i < 160; i++) watch.sawConnection();
  expect(state.numScans).toBe(1);
  state.now = 2_000;
  for (let probe = 0; probe < 50; probe++) expect(watch.problem).toBeNull();
  expect(state.numScans).toBe(2);
});

test('a burst of connections is noticed between two looks', () => {
  const { watch, state, lines } = watched();
  state.files = { used: 99, limit: 100 };
  for (let i = 0; i < 16; i++) watch.sawConnection();
  expect(lines).toHaveLength(1);
});

test('threads, a full disk and a slow one have a line each', async () => {
  const { watch, state, lines } = watched();
  state.threads = { used: 990, limit: 1000 };
  state.freeBytes = 1_200_000;
  state.syncMs = 3_400;
  await watch.look();
  expect(lines).toEqual([
    '990 of 1000 processes and threads are in use: at the limit, no host can start. Raise the limit (ulimit -u, pids.max, TasksMax)',
    'the disk of the data folder is full (1.2 MB free): the service samples, but stores nothing. Free some space there',
    'the disk of the data folder is slow: a write took 3.4 s (fsync), and every change waits for it. Check the load and the health of the disk',
  ]);
  expect(watch.problem).toBe(lines.join('; '));
  expect(watch.state).toMatchObject({ syncSeconds: 3.4, freeDiskBytes: 1_200_000 });
  // A slow write is reported for a minute.
  state.now = 61_000;
  state.freeBytes = 1e9;
  state.threads = null;
  expect(watch.problem).toBeNull();
});

test.runIf(process.platform === 'linux')('the figures of this machine are there', () => {
  const disk = { freeBytes: null, isDiskFull: false, timeSync: async () => null };
  const { openFiles } = new MachineWatch({ disk, log: () => undefined }).state;
  expect(openFiles!.used).toBeGreaterThan(3);
  expect(openFiles!.limit).toBeGreaterThan(openFiles!.used);
});

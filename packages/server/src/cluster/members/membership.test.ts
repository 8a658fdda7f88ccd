import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type MemberFacts, SqlStore, StoreError } from '@trainyard/store';
import { MemoryDatabase, MemorySql } from '@trainyard/store/testing';
import { expect, onTestFinished, test, vi } from 'vitest';

import { Membership } from './membership.ts';
import { ModelDigests } from './model-digests.ts';
import { registerTrainer } from './register-trainer.ts';

const FACTS: MemberFacts = { baseModels: [], capacity: 4, adapterDigests: [], isDraining: false, machineTrouble: null };

function memoryStore(): SqlStore {
  const store = new SqlStore(new MemorySql(new MemoryDatabase()), { clock: () => Date.now(), instanceId: 'me' });
  onTestFinished(() => store.close());
  return store;
}

function fakeClock(): void {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 1) });
  onTestFinished(() => void vi.useRealTimers());
}

test('a member is listed until its orderly end, with the state of its last heartbeat', async () => {
  fakeClock();
  const store = memoryStore();
  let facts = FACTS;
  const membership = new Membership({ store, role: 'engine', url: 'http://e', facts: () => facts, log: () => {} });
  await membership.open();
  for (let heartbeat = 0; heartbeat < 10; heartbeat++) {
    await vi.advanceTimersByTimeAsync(8_000);
    expect(await store.members.list()).toMatchObject([{ id: 'me', role: 'engine', url: 'http://e', ...FACTS }]);
  }
  facts = { ...FACTS, isDraining: true };
  await membership.report();
  expect(await store.members.list()).toMatchObject([facts]);
  await membership.close();
  expect(await store.members.list()).toEqual([]);
  await membership.report();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await store.members.list()).toEqual([]);
});

test('the lease ends while the database is gone and returns with it, with one log line each', async () => {
  fakeClock();
  const store = memoryStore();
  const logged: string[] = [];
  const membership = new Membership({
    store,
    role: 'engine',
    url: null,
    facts: () => FACTS,
    log: (line) => logged.push(line),
  });
  await membership.open();
  const gone = vi
    .spyOn(store.members, 'renew')
    .mockRejectedValue(new StoreError('store.unavailable', 'the database is gone'));
  await vi.advanceTimersByTimeAsync(40_000);
  expect(await store.members.list()).toEqual([]);
  await store.purgeExpired();
  gone.mockRestore();
  await vi.advanceTimersByTimeAsync(8_000);
  expect(await store.members.list()).toMatchObject([{ role: 'engine' }]);
  expect(logged).toEqual([
    'this engine cannot renew its lease: the database is gone',
    'this engine is registered again',
  ]);
  await membership.close();
});

test('a trainer reports the files it trains on, and their digests once it has read them', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-member-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, 'base.gguf');
  const bytes = Buffer.alloc(3_000_000, 7);
  await writeFile(path, bytes);
  const store = memoryStore();
  const leave = await registerTrainer({
    store,
    training: { baseModels: ['base', 'elsewhere'], problem: () => null },
    modelPaths: (id) => (id === 'base' ? path : null),
    machine: { problem: 'the disk of the data folder is full' },
    log: () => {},
  });
  const fileDigest = createHash('sha256').update(bytes).digest('hex');
  await vi.waitFor(
    async () =>
      expect(await store.members.list()).toMatchObject([
        {
          role: 'trainer',
          url: null,
          capacity: 1,
          machineTrouble: 'the disk of the data folder is full',
          baseModels: [
            { id: 'base', fileDigest },
            { id: 'elsewhere', fileDigest: null },
          ],
        },
      ]),
    60_000,
  );
  await leave();
  expect(await store.members.list()).toEqual([]);
});

test('a file that cannot be read has no digest, and a close waits for no file', async () => {
  const logged: string[] = [];
  const digests = new ModelDigests((line) => logged.push(line));
  expect(digests.of('/nowhere/base.gguf', () => {})).toBeNull();
  await vi.waitFor(() => expect(logged).toHaveLength(1), 60_000);
  expect(logged[0]).toContain('cannot compute the digest of /nowhere/base.gguf');
  expect(digests.of('/dev/zero', () => {})).toBeNull();
  await digests.close();
  expect(logged).toHaveLength(1);
});

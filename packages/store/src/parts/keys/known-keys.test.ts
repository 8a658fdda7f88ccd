import { beforeEach, expect, test } from 'vitest';

import { StoreError } from '../../contract/errors.ts';
import { digestOf } from './key-secret.ts';
import type { FoundKey } from './key-table.ts';
import { KnownKeys } from './known-keys.ts';

const CALLER = { keyId: 'k', entityId: 'e', entity: 'acme', scopes: ['inference' as const], limits: null };
const FOUND: FoundKey = { caller: CALLER, expiresAt: null };

const rows = new Map<string, FoundKey>();
let numLooks = 0;
let version: number | null = 1;
let known: KnownKeys;

beforeEach(() => {
  rows.clear();
  numLooks = 0;
  version = 1;
  known = new KnownKeys({
    find: async (digest) => {
      numLooks += 1;
      return rows.get(digest.toString('hex')) ?? null;
    },
    version: () => version,
    isAway: async () => false,
  });
});

const put = (secret: string, found: FoundKey = FOUND) => rows.set(digestOf(secret).toString('hex'), found);
const remove = (secret: string) => rows.delete(digestOf(secret).toString('hex'));

test('a key is read once while the database is unchanged', async () => {
  put('a');
  for (const now of [0, 1, 1_000_000]) expect(await known.verify('a', now)).toEqual(CALLER);
  expect(numLooks).toBe(1);
  remove('a');
  version = 2;
  expect(await known.verify('a', 1)).toBeNull();
});

test('and each time if the database does not report changes', async () => {
  version = null;
  put('a');
  for (const now of [0, 1]) expect(await known.verify('a', now)).toEqual(CALLER);
  expect(numLooks).toBe(2);
});

test('over a network a key holds as it was read last while the database is away, and no longer than it is valid', async () => {
  version = null;
  const gone = new StoreError('store.unavailable', 'the database is gone');
  let isGone = false;
  const remembering = new KnownKeys(
    {
      find: async (digest) => {
        if (isGone) throw gone;
        return rows.get(digest.toString('hex')) ?? null;
      },
      version: () => null,
      isAway: async () => true,
    },
    { outageMs: 60_000 },
  );
  put('a');
  put('b', { ...FOUND, expiresAt: 10 });
  for (const secret of ['a', 'b']) expect(await remembering.verify(secret, 0)).toEqual(CALLER);
  isGone = true;
  expect(await remembering.verify('a', 20)).toEqual({ ...CALLER, isRemembered: true });
  expect(await remembering.verify('b', 20)).toBeNull();
  await expect(remembering.verify('unknown', 20)).rejects.toBe(gone);
  // This process revokes one; the database is back.
  remembering.changed();
  await expect(remembering.verify('a', 20)).rejects.toBe(gone);
});

test('a change during a read is seen by the next read', async () => {
  put('a');
  const looking = known.verify('a', 0);
  version = 2;
  await looking;
  remove('a');
  expect(await known.verify('a', 0)).toBeNull();
});

test('a change by this process takes effect at once, even during a read', async () => {
  put('a');
  await known.verify('a', 0);
  remove('a');
  known.changed();
  expect(await known.verify('a', 1)).toBeNull();
  put('b');
  const looking = known.verify('b', 2);
  remove('b');
  known.changed();
  expect(await looking).toEqual(CALLER);
  expect(await known.verify('b', 2)).toBeNull();
});

test('a key ends at its time, and a missing one is read each time', async () => {
  put('a', { caller: CALLER, expiresAt: 100 });
  expect(await known.verify('a', 99)).toEqual(CALLER);
  expect(await known.verify('a', 100)).toBeNull();
  expect(await known.verify('b', 100)).toBeNull();
  put('b');
  expect(await known.verify('b', 100)).toEqual(CALLER);
});

test('a thousand and one keys take the room of a thousand', async () => {
  for (let at = 0; at <= 1_000; at++) {
    put(`${at}`);
    await known.verify(`${at}`, 0);
  }
  expect(numLooks).toBe(1_001);
  await known.verify('1', 0);
  expect(numLooks).toBe(1_001);
  await known.verify('0', 0);
  expect(numLooks).toBe(1_002);
});

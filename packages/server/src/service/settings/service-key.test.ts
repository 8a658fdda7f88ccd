import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { SqlStore } from '@trainyard/store';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { ensureServiceKey } from './service-key.ts';
import { openTestStore } from '../../testing/test-store.ts';

let folder: string;
let keyFile: string;
let store: SqlStore;
let logged: string[];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-key-'));
  keyFile = join(folder, 'admin-key');
  store = await openTestStore(folder);
  logged = [];
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true });
});

const start = (apiKey: string | null) =>
  ensureServiceKey(store, { entity: 'local', apiKey }, { keyFile, log: (line) => logged.push(line) });
const isValid = async (secret: string) => (await store.keys.verify(secret)) !== null;

test('a first start makes a key, which later ones find in its file', async () => {
  const made = await start(null);
  expect(made).toMatchObject({ isNew: true });
  expect(await start(null)).toEqual({ secret: made?.secret, isNew: false });
  expect(readFileSync(keyFile, 'utf8')).toBe(`${made?.secret}\n`);
  expect(statSync(keyFile).mode & 0o777).toBe(0o600);
});

test('another configured key replaces the one before, made up or configured, at once', async () => {
  const made = await start(null);
  await start('first');
  expect([await isValid(made?.secret ?? ''), await isValid('first')]).toEqual([false, true]);
  await start('second');
  expect([await isValid('first'), await isValid('second')]).toEqual([false, true]);
  expect(logged).toHaveLength(2);
  await start('second');
  expect(logged).toHaveLength(2);
  expect(await start(null)).toEqual({ secret: 'second', isNew: false });
});

test('a revoked key is not shown as the one to use, and a service without an admin gets one', async () => {
  await start(null);
  const { id: entityId } = await store.keys.ensureEntity('local');
  const other = await store.keys.create({ entityId, name: 'me', scopes: ['admin'] });
  const [service] = await store.keys.list(entityId);
  await store.keys.revoke(service?.id ?? '');
  expect(await start(null)).toBeNull();
  await store.keys.revoke(other.id);
  expect(await start(null)).toMatchObject({ isNew: true });
  expect(existsSync(keyFile)).toBe(true);
});

test.each([
  ['empty', () => writeFileSync(keyFile, '')],
  [
    'unreadable',
    () => {
      rmSync(keyFile);
      mkdirSync(keyFile);
    },
  ],
])('an %s key file is one line with the way out, and revokes nothing', async (how, damage) => {
  const made = await start(null);
  damage();
  expect(await start(null)).toBeNull();
  expect(logged).toEqual([
    expect.stringMatching(/^The key file .*admin-key (is empty|cannot be read \(EISDIR\))\. .*trainyard keys create/),
  ]);
  expect(logged[0]).toContain(how === 'empty' ? 'is empty' : 'EISDIR');
  expect(await isValid(made?.secret ?? '')).toBe(true);
});

test('the file has the key before the database does, so a crash in between locks no client out', async () => {
  vi.spyOn(store.keys, 'create').mockRejectedValueOnce(new Error('the power is cut'));
  await expect(start(null)).rejects.toThrow('the power is cut');
  const kept = readFileSync(keyFile, 'utf8').trim();
  expect([kept.length > 40, await isValid(kept)]).toEqual([true, false]);
  const made = await start(null);
  expect([readFileSync(keyFile, 'utf8'), await isValid(made?.secret ?? '')]).toEqual([`${made?.secret}\n`, true]);
});

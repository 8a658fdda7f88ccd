import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import type { Blobs } from '../contract/blobs.ts';
import { FolderBlobs } from './folder-blobs.ts';
import { checkOwnBlobs } from './own-blobs.ts';

type ClaimedFiles = Parameters<typeof checkOwnBlobs>[0]['files'];

let root: string;
let blobs: Blobs;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'trainyard-own-blobs-'));
  blobs = await FolderBlobs.open(root);
});
afterEach(async () => {
  await blobs.close();
  await rm(root, { recursive: true });
});

/** An empty database that several processes share. */
function sharedDatabase(): { readonly id: string | null; files(): ClaimedFiles } {
  const rows: { id: string | null } = { id: null };
  return {
    get id() {
      return rows.id;
    },
    files: () => ({
      blobsId: async () => rows.id,
      claimBlobs: async (id) => (rows.id ??= id),
      listReferenced: async () => ({ directoryKeys: [], blobKeys: [] }),
    }),
  };
}

/** The same object; `before` runs once, before its call number `at`, counted over all wrapped objects. */
function interrupted<Part extends object>(
  part: Part,
  calls: { made: number },
  at: number,
  before: () => Promise<void>,
) {
  return new Proxy(part, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return async (...args: unknown[]) => {
        if (calls.made++ === at) await before();
        return (await member.apply(target, args)) as unknown;
      };
    },
  });
}

test('a process that starts between any two steps of another on the same empty database agrees with it', async () => {
  let hasInterrupted = true;
  let at = 0;
  for (; hasInterrupted; at++) {
    const database = sharedDatabase();
    hasInterrupted = false;
    const other = async () => {
      hasInterrupted = true;
      await checkOwnBlobs({ files: database.files() }, blobs);
    };
    const calls = { made: 0 };
    const files = interrupted(database.files(), calls, at, other);
    await checkOwnBlobs({ files }, interrupted(blobs, calls, at, other));
    expect(await blobs.listKeys()).toEqual([`places/${database.id}`]);
    await blobs.remove(`places/${database.id}`);
  }
  // At least the two reads of the marks, the claim and the mark.
  expect(at).toBeGreaterThan(4);
});

test('blobs with content and no mark of this database stay refused', async () => {
  await blobs.putJson('logs/of-another-service', {});
  await expect(checkOwnBlobs({ files: sharedDatabase().files() }, blobs)).rejects.toThrow('The database is empty');
  const claimed = sharedDatabase();
  await claimed.files().claimBlobs('mine');
  await expect(checkOwnBlobs({ files: claimed.files() }, blobs)).rejects.toThrow('places/mine is missing');
  expect(await blobs.listKeys()).toEqual(['logs/of-another-service']);
});

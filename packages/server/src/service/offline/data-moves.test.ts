import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openStore } from '@trainyard/store';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { dataPaths } from '../../seams/data/data-directory.ts';
import { moveData, restoreData } from './data-moves.ts';

let folder: string;
let from: string;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-moves-'));
  from = folder;
  const store = await openStore({ kind: 'sqlite', path: dataPaths(from).database });
  await store.close();
});
afterEach(() => rmSync(folder, { recursive: true }));

test.each(['postgress://trainyard@db/there', 'Postgres://u:12/3@db/there', 'mysql://db/there', 's3://bucket'])(
  'an address that is not known, %s, is no folder for a database',
  async (to) => {
    const refused = {
      code: 'server.config_invalid',
      message: expect.stringContaining('use a data folder or postgres:'),
    };
    await expect(moveData({ from, to, blobs: null })).rejects.toMatchObject(refused);
    await expect(moveData({ from: to, to: join(folder, 'to'), blobs: null })).rejects.toMatchObject(refused);
    await expect(moveData({ from, to, blobs: null })).rejects.not.toThrow('12/3');
    expect(existsSync(to.slice(0, to.indexOf(':') + 1))).toBe(false);
  },
);

test('a folder that is no backup is not restored, and no data folder is created for it', async () => {
  const dataDirectory = join(folder, 'restored');
  const database = { kind: 'sqlite', path: dataPaths(dataDirectory).database } as const;
  const restored = restoreData({ dataDirectory, database, bucket: null }, from);
  await expect(restored).rejects.toThrow('is not a complete backup');
  expect(existsSync(dataDirectory)).toBe(false);
});

test.each(['sslmod=require', 'sslmode=requre', 'passfile=/x'])(
  'nor is a database address with %s accepted, because a part of it would have no effect',
  async (parameter) => {
    const address = `postgres://u:secret@127.0.0.1:9/there?${parameter}`;
    for (const [places, what] of [
      [{ from, to: address }, 'to copy to'],
      [{ from: address, to: join(folder, 'to') }, 'to copy from'],
    ] as const) {
      const moved = moveData({ ...places, blobs: null });
      await expect(moved).rejects.toMatchObject({
        code: 'server.config_invalid',
        message: expect.stringContaining(
          `the address of the database ${what} has the invalid parameter ${parameter.split('=')[0]}: `,
        ),
      });
      await expect(moved).rejects.not.toThrow('secret');
    }
    expect(existsSync(join(folder, 'to'))).toBe(false);
  },
);

test('nor one for blobs', async () => {
  const blobs = { from, to: 's3://bucket/prefix', region: 'us-east-1' };
  await expect(moveData({ from, to: join(folder, 'to'), blobs })).rejects.toMatchObject({
    code: 'server.config_invalid',
    message: 'an address with s3: is not supported: use a data folder or https://HOST/BUCKET[/PREFIX]',
  });
  expect(existsSync('s3:')).toBe(false);
});

test('a folder may have a colon in its name', async () => {
  const to = join(folder, 'at 12:30');
  const { tables } = await moveData({ from, to, blobs: null });
  expect(tables.length).toBeGreaterThan(10);
  expect(existsSync(dataPaths(to).database)).toBe(true);
});

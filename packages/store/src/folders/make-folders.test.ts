import { existsSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { SqliteSql } from '../drivers/sqlite/sqlite-sql.ts';
import { makeFolders } from './make-folders.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'trainyard-folders-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test('creates missing folders with the mode, and returns the highest', () => {
  expect(makeFolders(join(root, 'a/b/c'), 0o700)).toBe(join(root, 'a'));
  for (const name of ['a', 'a/b', 'a/b/c']) expect(statSync(join(root, name)).mode & 0o777).toBe(0o700);
  expect(makeFolders(join(root, 'a/b/c'))).toBeUndefined();
  expect(makeFolders(join(root, 'a/b/d/'))).toBe(join(root, 'a/b/d/'));
  expect(makeFolders('/')).toBeUndefined();
});

test('a link to a folder is one; a file, a path below it, and a broken link are none', () => {
  symlinkSync(root, join(root, 'link'));
  expect(makeFolders(join(root, 'link'))).toBeUndefined();
  expect(makeFolders(join(root, 'link/below'))).toBe(join(root, 'link/below'));
  writeFileSync(join(root, 'file'), '');
  symlinkSync(join(root, 'nowhere'), join(root, 'lost'));
  for (const name of ['file', 'file/below', 'lost'])
    expect(() => makeFolders(join(root, name))).toThrow(/EEXIST|ENOTDIR/);
});

// Node's recursive mkdir hangs there.
describe.runIf(existsSync('/proc/self'))('if the folder above accepts none', () => {
  test('it reports so', () => {
    for (const path of ['/proc/x', '/proc/x/y/z']) expect(() => makeFolders(path)).toThrow(/^(ENOENT|EACCES|EPERM)/);
  });

  test('a database and blobs there are refused', async () => {
    const unavailable = expect.objectContaining({ code: 'store.unavailable' });
    expect(() => new SqliteSql('/proc/x/y/store.sqlite')).toThrow(unavailable);
    await expect(FolderBlobs.open('/proc/x/blobs')).rejects.toThrow(/\/proc\/x/);
  });
});

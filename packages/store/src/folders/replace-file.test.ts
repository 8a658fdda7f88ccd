import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { createFile, replaceFile } from './replace-file.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'trainyard-files-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

test('a file is replaced whole, readable only by its owner, and leaves no other file', () => {
  const root = folder();
  writeFileSync(join(root, 'key'), 'old', { mode: 0o644 });
  replaceFile(join(root, 'key'), 'new\n');
  expect([readFileSync(join(root, 'key'), 'utf8'), statSync(join(root, 'key')).mode & 0o777]).toEqual(['new\n', 0o600]);
  expect(readdirSync(root)).toEqual(['key']);
  expect(() => replaceFile(join(root, 'none/key'), 'new')).toThrow(expect.objectContaining({ code: 'ENOENT' }));
});

test('a new file never takes the place of another', () => {
  const root = folder();
  createFile(join(root, 'lock'), 'first');
  expect(() => createFile(join(root, 'lock'), 'second')).toThrow(expect.objectContaining({ code: 'EEXIST' }));
  expect([readFileSync(join(root, 'lock'), 'utf8'), readdirSync(root)]).toEqual(['first', ['lock']]);
});

test('bytes are on disk before their name, and names and new folders before the call returns', () => {
  const root = folder();
  const script = join(import.meta.dirname, 'recorded-calls.fixture.ts');
  const output = execFileSync(process.execPath, ['--conditions=@trainyard/source', script, root], { encoding: 'utf8' });
  const name = basename(root);
  expect(JSON.parse(output)).toEqual({
    replaced: ['write key.new', 'sync key.new', 'rename key.new to key', `sync ${name}`],
    created: ['write lock.new', 'sync lock.new', 'link lock.new as lock', `sync ${name}`],
    made: ['make a', `sync ${name}`, 'make b', 'sync a', 'make c', 'sync b'],
    madeAgain: ['make c'],
  });
});

import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { ModelJournal } from './model-journal.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'journal-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const path = () => join(folder, 'state/models.jsonl');
const ONE = { url: 'http://one', modelId: 'a' };
const TWO = { url: 'http://two', modelId: 'a' };

test('numbers are on disk before they are given out, and never given out twice', () => {
  const journal = new ModelJournal(path());
  journal.opened(ONE);
  journal.opened(TWO);
  expect([journal.nextSeqId(ONE), journal.nextSeqId(ONE), journal.nextSeqId(TWO)]).toEqual([1, 2, 1]);
  // A crash: nothing is closed, and the last line is incomplete.
  appendFileSync(path(), '{"url":"http://one","modelId":"a","lastSe');
  const next = new ModelJournal(path());
  expect(next.openModels()).toEqual([
    { ...ONE, lastSeqId: 2 },
    { ...TWO, lastSeqId: 1 },
  ]);
  expect(next.nextSeqId(ONE)).toBe(3);
  journal.close();
  next.close();
});

test('unloaded models are removed, and the file does not grow over restarts', () => {
  for (let life = 0; life < 3; life++) {
    const journal = new ModelJournal(path());
    expect(journal.openModels()).toEqual([]);
    journal.opened(ONE);
    for (let i = 0; i < 50; i++) journal.nextSeqId(ONE);
    journal.closed(ONE);
    journal.close();
  }
  expect(readFileSync(path(), 'utf8').trim().split('\n')).toHaveLength(52);
});

test('a disk that fills up in the middle of a line loses no number, and gives none out twice', (context) => {
  const small = join(folder, 'state');
  mkdirSync(small);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8k', 'small', small], { stdio: 'ignore' });
  } catch {
    context.skip('a small file system takes the right to mount');
  }
  try {
    const journal = new ModelJournal(path());
    journal.opened(ONE);
    let given = 0;
    const fill = () => {
      for (;;) given = journal.nextSeqId(ONE);
    };
    expect(fill).toThrow('ENOSPC');
    expect(readFileSync(path(), 'utf8')).not.toMatch(/\n$/);
    const [before] = new ModelJournal(path()).openModels();
    expect(before).toEqual({ ...ONE, lastSeqId: given });
    execFileSync('mount', ['-o', 'remount,size=1m', small]);
    const next = journal.nextSeqId(ONE);
    expect(next).toBeGreaterThan(given);
    journal.opened(TWO);
    journal.close();
    expect(new ModelJournal(path()).openModels()).toEqual([
      { ...ONE, lastSeqId: next },
      { ...TWO, lastSeqId: 0 },
    ]);
  } finally {
    execFileSync('umount', ['--lazy', small]);
  }
});

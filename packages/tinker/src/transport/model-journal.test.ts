import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
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
  // A crash: nothing is closed, and the last line is cut off.
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

test('what was unloaded is forgotten, and the file does not grow over lives', () => {
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

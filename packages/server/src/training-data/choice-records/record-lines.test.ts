import fc from 'fast-check';
import { expect, test } from 'vitest';

import type { RecordedChoice } from '../wire/recorded-choice.ts';
import { RecordLineReader, toRecordLines } from './record-lines.ts';

/** Prompts that extend, repeat, shorten or leave the previous one. */
const prompt = fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 12 }).map((ids) => Int32Array.from(ids));

const record = fc.oneof(
  prompt.map((promptTokenIds): RecordedChoice => ({ kind: 'plain', promptTokenIds })),
  fc.constant<RecordedChoice>({ kind: 'plain' }),
  prompt.map((promptTokenIds): RecordedChoice => ({
    kind: 'sampled',
    promptTokenIds,
    tokenIds: Int32Array.of(1, 2),
    logprobs: Float32Array.of(-0.5, -0.25),
    sampling: null,
  })),
);

const written = (records: ReadonlyMap<string, RecordedChoice>) =>
  [...toRecordLines(records)].map((line) => JSON.stringify(line));
const readBack = (lines: readonly string[]) => {
  const reader = new RecordLineReader();
  return lines.map((line) => reader.read(JSON.parse(line) as object)!);
};

test('records are read as they were written, for any sequence of prompts', () => {
  fc.assert(
    fc.property(fc.array(record, { maxLength: 12 }), (list) => {
      const records = new Map(list.map((one, index) => [`r-${index}`, one]));
      expect(readBack(written(records))).toEqual([...records]);
    }),
  );
});

test('each turn of a conversation adds a line and memory for its new part only', () => {
  const numTurns = 40;
  const turns = Array.from({ length: numTurns }, (_, turn) =>
    Int32Array.from({ length: 200 * (turn + 1) }, (_id, i) => i),
  );
  const records = new Map(turns.map((ids, index) => [`r-${index}`, { kind: 'plain' as const, promptTokenIds: ids }]));
  const lines = written(records);
  const numBytes = lines.reduce((sum, line) => sum + line.length, 0);
  const read = readBack(lines).map(([, one]) => one.promptTokenIds!);
  expect(read).toEqual(turns);
  const buffers = new Set(read.map(({ buffer }) => buffer));
  const kept = [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0);
  const whole = turns.reduce((sum, { byteLength }) => sum + byteLength, 0);
  console.log(`${numTurns} turns: ${numBytes} bytes of lines, ${kept} of memory, for prompts of ${whole} bytes`);
  expect(numBytes).toBeLessThan(whole / 8);
  expect(kept).toBeLessThan(whole / 4);
});

test('jobs of a service that kept no prompt of plain choices are read as they were', () => {
  expect(readBack(['{"choice_record":"r-0","is_plain":true}'])).toEqual([['r-0', { kind: 'plain' }]]);
  expect(new RecordLineReader().read({ trajectories: [], choice_record: 'x' })).toBe(null);
});

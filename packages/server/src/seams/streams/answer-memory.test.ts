import { expect, test } from 'vitest';

import { AnswerMemory } from './answer-memory.ts';
import type { OutputEvent } from './chat-events.ts';

/** An output of `numEntries` tokens without alternatives. */
const output = (numEntries: number): OutputEvent => ({
  kind: 'delta',
  index: 0,
  text: '',
  tokenIds: Array.from({ length: numEntries }, () => 1),
  logprobs: null,
});

test('above the limit the oldest answer continues, and the others follow one after the other', async () => {
  const memory = new AnswerMemory(100);
  const [first, second, third] = [memory.hold(), memory.hold(), memory.hold()];
  expect(second.take(output(60))).toBeNull();
  const order: string[] = [];
  const waits = [second.take(output(50)), third.take(output(5))];
  void waits[0]!.then(() => order.push('second'));
  void waits[1]!.then(() => order.push('third'));
  expect(first.take(output(500)), 'the oldest').toBeNull();
  first.complete();
  await waits[0];
  expect(order).toEqual(['second']);
  second.complete();
  first.release();
  second.release();
  await waits[1];
  expect(order).toEqual(['second', 'third']);
});

test('an answer that is computed again frees its memory for those that wait', async () => {
  const memory = new AnswerMemory(100);
  const [first, second] = [memory.hold(), memory.hold()];
  expect(first.take(output(90))).toBeNull();
  const wait = second.take(output(50));
  expect(wait).not.toBeNull();
  first.restart();
  await wait;
  expect(first.take(output(50))).toBeNull();
  first.complete();
  first.release();
  first.restart();
  expect(second.take(output(50)), 'nothing is subtracted twice').toBeNull();
  expect(memory.hold().take(output(1))).not.toBeNull();
});

test('unread answers make further ones fail until they are gone', () => {
  const memory = new AnswerMemory(100);
  const unread = memory.hold();
  expect(unread.take(output(120))).toBeNull();
  unread.complete();
  const other = memory.hold();
  expect(() => other.take(output(1))).toThrow(
    'Responses that clients have not read yet hold 120 tokens and log-probabilities (limit 100). Retry later, or stream this response.',
  );
  unread.release();
  unread.release();
  expect(other.take(output(100))).toBeNull();
});

test('an answer without its client counts nothing, and waits for nothing', async () => {
  const memory = new AnswerMemory(10);
  const [first, second] = [memory.hold(), memory.hold()];
  expect(first.take(output(11))).toBeNull();
  const waits = second.take(output(1));
  second.release();
  await waits;
  expect(second.take(output(1_000))).toBeNull();
  first.release();
  expect(memory.hold().take(output(10))).toBeNull();
});

test('alternatives of tokens count', () => {
  const memory = new AnswerMemory(9);
  const top = Array.from({ length: 4 }, () => ({ id: 1, text: 'x', bytes: [120], logprob: -1 }));
  const event = { ...output(2), logprobs: [1, 2].map(() => ({ id: 1, text: 'x', bytes: [120], logprob: -1, top })) };
  const [first, second] = [memory.hold(), memory.hold()];
  expect(first.take(output(1))).toBeNull();
  expect(second.take(event)).not.toBeNull();
});

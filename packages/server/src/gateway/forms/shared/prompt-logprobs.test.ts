import type { PromptLogprob } from '@trainyard/backend';
import { expect, test } from 'vitest';

import { answerOf, answerTextOf, chunksOf } from '../../../testing/scripted-answers.ts';

const entry = (id: number, logprob: number, rank: number): PromptLogprob => ({
  id,
  logprob,
  rank,
  text: `<${id}>`,
  bytes: [],
});

/** The second token is the prompt's 900, sixth by rank; the third has the smallest id. */
const PROMPT = [
  null,
  [entry(900, -5, 6), entry(31, -0.5, 1), entry(4, -1, 2)],
  [entry(2, -Infinity, 1000), entry(77, -0.1, 1)],
];

test('the keys are ids in order: the prompt’s own token first, then the most likely', async () => {
  const text = await answerTextOf({ steps: [], end: { promptLogprobs: PROMPT } });
  expect(text).toContain(
    '"prompt_logprobs":[null,' +
      '{"900":{"logprob":-5,"rank":6,"decoded_token":"<900>"},' +
      '"31":{"logprob":-0.5,"rank":1,"decoded_token":"<31>"},' +
      '"4":{"logprob":-1,"rank":2,"decoded_token":"<4>"}},' +
      '{"2":{"logprob":-9999,"rank":1000,"decoded_token":"<2>"},' +
      '"77":{"logprob":-0.1,"rank":1,"decoded_token":"<77>"}}]',
  );
});

test('they are null unless requested, and never in a stream', async () => {
  expect((await answerOf({ steps: [] })).prompt_logprobs).toBeNull();
  const chunks = await chunksOf({ steps: [], end: { promptLogprobs: PROMPT } });
  expect(chunks.every((chunk) => !('prompt_logprobs' in chunk))).toBe(true);
});

test('the prompt comes back as text on request: in the answer, and in role chunks only', async () => {
  const format = { hasPromptText: true };
  // The scripted back end renders an id as the character with that code.
  expect((await answerOf({ steps: [], format })).prompt_text).toBe('\u0001\u0002\u0003');
  const chunks = await chunksOf({ steps: [{ ids: [5], text: 'x' }], n: 2, format });
  expect(chunks.map((chunk) => chunk.prompt_text)).toEqual([
    '\u0001\u0002\u0003',
    '\u0001\u0002\u0003',
    ...Array.from({ length: 4 }, () => undefined),
  ]);
  expect((await answerOf({ steps: [] })).prompt_text).toBeNull();
});

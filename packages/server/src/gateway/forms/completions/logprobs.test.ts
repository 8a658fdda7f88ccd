import type { TokenLogprob } from '@trainyard/backend';
import { describe, expect, test } from 'vitest';

import { toOrderedJson } from '../../../seams/json/ordered-json.ts';
import { CompletionLogprobWriter, promptColumns } from './logprobs.ts';

const token = (text: string, bytes: number[] = [...Buffer.from(text)]): TokenLogprob => {
  const entry = { id: 1, logprob: -1, bytes, text };
  return { ...entry, top: [entry] };
};

test('offsets count characters, and all pieces of a character have its offset', () => {
  const [first = 0, second = 0, third = 0, fourth = 0] = Buffer.from('😀');
  const writer = new CompletionLogprobWriter({ numTop: 0, hasTokensAsIds: false }, 'é😀', null);
  const { text_offset: offsets } = writer.write([
    token('é'),
    token('\uFFFD', [first, second]),
    token('\uFFFD', [third, fourth]),
    token('x'),
  ]);
  expect(offsets).toEqual([2, 3, 3, 4]);
  // The position is kept between chunks.
  expect(writer.write([token('y')]).text_offset).toEqual([5]);
});

test('−∞ is sent as −9999, and a text named __proto__ is an entry like any other', () => {
  const writer = new CompletionLogprobWriter({ numTop: 0, hasTokensAsIds: false }, '', null);
  const columns = writer.write([{ ...token('__proto__'), logprob: -Infinity }]);
  expect(columns.token_logprobs).toEqual([-9999]);
  expect(toOrderedJson(columns.top_logprobs)).toBe('[{"__proto__":-1}]');
});

test('the sampled token comes first, as an extra entry only if it is none of the most likely ones', () => {
  const entry = (text: string, logprob: number) => ({ id: 1, text, bytes: [...Buffer.from(text)], logprob });
  const [first, second] = [entry('a', -1), entry('b', -2)];
  const told = (logprob: number) => {
    const sampled = entry('s', logprob);
    const writer = new CompletionLogprobWriter({ numTop: 2, hasTokensAsIds: false }, '', null);
    const columns = writer.write([{ ...sampled, top: [sampled, first, second] }]);
    expect([columns.tokens, columns.token_logprobs]).toEqual([['s'], [logprob]]);
    return columns.top_logprobs;
  };
  expect(told(-3)).toEqual([
    new Map([
      ['s', -3],
      ['a', -1],
      ['b', -2],
    ]),
  ]);
  const amongThem = new Map([
    ['s', -2],
    ['a', -1],
  ]);
  expect(told(-2), 'as likely as the last of them').toEqual([amongThem]);
});

describe('the columns of a prompt', () => {
  const face = (text: string, bytes: number[] = [...Buffer.from(text)]) => ({ id: text.length, text, bytes });
  const format = { numTop: 1, hasTokensAsIds: false };
  const offsets = (tokens: ReturnType<typeof face>[], text: string) => {
    const [first = face(''), ...others] = tokens;
    const promptLogprobs = [null, ...others.map((other) => [{ ...other, logprob: -1, rank: 2 }])];
    return promptColumns({ kind: 'prompt_scored', first, promptLogprobs }, text, format).text_offset;
  };

  test('have no entry for tokens that the text does not show, at any position', () => {
    expect(offsets([face('<s>'), face('a'), face('bc'), face('</s>')], 'abc')).toEqual([0, 0, 1, 3]);
    expect(offsets([face('<s>'), face('<s>'), face('a')], '<s>a')).toEqual([0, 0, 3]);
    expect(offsets([face('<s>'), face('a')], '<s>a')).toEqual([0, 3]);
    expect(offsets([face('<s>')], '')).toEqual([0]);
  });

  test('count characters, also of a text that was cut inside one', () => {
    const [first = 0, second = 0, third = 0, fourth = 0] = Buffer.from('😀');
    const tokens = [face('é'), face('\uFFFD', [first, second]), face('\uFFFD', [third, fourth]), face('x')];
    expect(offsets(tokens, 'é😀x')).toEqual([0, 1, 1, 2]);
    expect(offsets(tokens.slice(0, 2), 'é\uFFFD')).toEqual([0, 1]);
  });

  test('map half of a surrogate pair to its replacement character in the tokens', () => {
    const tokens = [face('<s>'), face('a'), face('\uFFFD'), face('x')];
    expect(offsets(tokens, 'a\uD800x')).toEqual([0, 0, 1, 2]);
    expect(offsets([face('\uFFFD')], '\uDC00')).toEqual([0]);
  });

  test('keep the likeliest and the own token of entries that have more', () => {
    const entry = [
      { ...face('own'), logprob: -3, rank: 3 },
      { ...face('b'), logprob: -1, rank: 1 },
      { ...face('cc'), logprob: -2, rank: 2 },
    ];
    const scores = { kind: 'prompt_scored', first: face('a'), promptLogprobs: [null, entry] } as const;
    const told = (numTop: number) =>
      promptColumns({ ...scores, promptLogprobs: [null, entry] }, 'aown', { ...format, numTop }).top_logprobs;
    const own = ['own', -3] as const;
    expect(told(0)).toEqual([null, new Map([own])]);
    expect(told(1)).toEqual([null, new Map([own, ['b', -1]])]);
    expect(told(2)).toEqual([null, new Map([own, ['b', -1], ['cc', -2]])]);
  });
});

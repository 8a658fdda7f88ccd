import { describe, expect, test } from 'vitest';

import { normalizeChatCompletionRequest as normalize, parseSeed } from './lax.ts';

describe('lax reading', () => {
  test.each<[Record<string, unknown>, Record<string, unknown>]>([
    [{ temperature: '0.5' }, { temperature: 0.5 }],
    [{ temperature: ' 1e-3 ' }, { temperature: 0.001 }],
    [{ temperature: true }, { temperature: 1 }],
    [
      { n: '2', top_k: '-1', max_tokens: '1_000' },
      { n: 2, top_k: -1, max_tokens: 1000 },
    ],
    [
      { n: '2.0', min_tokens: 3.0 },
      { n: 2, min_tokens: 3 },
    ],
    [
      { n: true, prompt_logprobs: true },
      { n: 1, prompt_logprobs: 1 },
    ],
    [
      { logprobs: 1, stream: 'yes', ignore_eos: 'OFF', echo: 0 },
      { logprobs: true, stream: true, ignore_eos: false, echo: false },
    ],
    [{ stream_options: { include_usage: 'true', odd: '1' } }, { stream_options: { include_usage: true, odd: '1' } }],
    [{ logit_bias: { '5': '1' } }, { logit_bias: { '5': 1 } }],
    [{ stop_token_ids: ['1', 2] }, { stop_token_ids: [1, 2] }],
    [{ seed: '7' }, { seed: 7 }],
    [{ seed: '9007199254740993' }, { seed: '9007199254740993' }],
    [{ seed: ' +00009007199254740993 ' }, { seed: '9007199254740993' }],
    [{ seed: '+-5' }, { seed: '+-5' }],
    [{ seed: '-5' }, { seed: -5 }],
    [{ seed: '9'.repeat(1_000_000) }, { seed: '9'.repeat(1_000_000) }],
    [{ repetition_detection: { max_pattern_size: '3' } }, { repetition_detection: { max_pattern_size: 3 } }],
  ])('%j is read as %j', (body, expected) => {
    expect(normalize(body)).toEqual(expected);
  });

  test.each<Record<string, unknown>>([
    { n: 1.5 },
    { n: '1.5' },
    { n: '' },
    { n: '.' },
    { n: '0x10' },
    { temperature: 'Infinity' },
    { logprobs: 2 },
    { logprobs: 'maybe' },
    { top_logprobs: '3' },
    { prompt_logprobs: '3' },
    { stop: 5 },
    { user: 5 },
    { stop: '5' },
    { unknown: '5' },
    { n: null, constructor: '1', __proto__: '1' },
    { messages: [{ role: 'user', content: '5' }], tools: [{ function: { strict: 'true' } }] },
  ])('%j stays as it is, for validation to judge', (body) => {
    expect(normalize(body)).toEqual(body);
  });

  test('a value that is not an object is returned unchanged', () => {
    for (const body of [null, 5, 'text', [], undefined]) expect(normalize(body)).toBe(body);
  });

  test('the input is not changed', () => {
    const body = Object.freeze({ n: '2' });
    expect(normalize(body)).not.toBe(body);
    expect(body.n).toBe('2');
  });
});

test('seeds are signed 64 bits, and −1 is none', () => {
  expect(
    [null, undefined, -1, 0, 7, '9223372036854775807', '-9223372036854775808'].map((seed) => parseSeed(seed)),
  ).toEqual([null, null, null, 0n, 7n, 9223372036854775807n, -9223372036854775808n]);
  expect(parseSeed('9223372036854776000')).toBe(9223372036854775807n);
  expect(parseSeed('-9223372036854776000')).toBe(-9223372036854775808n);
  expect(parseSeed('9223372036854776001')).toBe('out_of_range');
  expect(parseSeed('9223372036854775808')).toBe('out_of_range');
  expect(parseSeed('-9223372036854775809')).toBe('out_of_range');
});

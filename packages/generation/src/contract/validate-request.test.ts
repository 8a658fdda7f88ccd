import { describe, expect, test } from 'vitest';
import { Harness } from '../testing/text-harness.ts';
import { VOCAB_SIZE } from '@trainyard/engine/testing';
import type { RequestOptions } from '../testing/text-harness.ts';
import { REQUEST_LIMITS } from '@trainyard/protocol/fields';

const million = <T>(value: T): T[] => Array.from({ length: 1e6 }, () => value);

describe('a request that would cost others is refused before anything is made of it', () => {
  const huge: [string, string, RequestOptions][] = [
    ['a billion choices', 'n', { n: 1e9, sampling: { temperature: 1 } }],
    ['1 MB of stop strings', 'stop', { stop: Array.from({ length: 100_000 }, (_, i) => `stop ${i}`) }],
    ['one stop string of 1 MB', 'stop', { stop: ['x'.repeat(1e6)] }],
    ['100,000 bad words', 'badWords', { badWords: Array.from({ length: 100_000 }, (_, i) => `word ${i}`) }],
    ['one bad word of 1 MB', 'badWords', { badWords: ['x'.repeat(1e6)] }],
    ['a million stop ids', 'stopTokenIds', { stopTokenIds: million(1) }],
    ['a million allowed ids', 'allowedTokenIds', { allowedTokenIds: million(1) }],
    ['a million biases', 'logitBias', { sampling: { logitBias: million([1, 1] as const) } }],
    ['a million prompt tokens', 'prompt', { prompt: million(1) }],
  ];
  test.each(huge)('%s', (_name, param, options) => {
    const harness = new Harness();
    const start = performance.now();
    const { failed } = harness.submit(options);
    const ms = performance.now() - start;
    console.log(`${_name}: refused in ${ms.toFixed(2)} ms: ${failed?.message}`);
    expect(failed?.param).toBe(param);
    expect(failed?.message).toMatch(/at most|in \[1/);
    expect(failed?.message.length).toBeLessThan(200);
    expect(harness.engine.hasWork).toBe(false);
  });

  test('values at the limits are accepted', () => {
    const harness = new Harness();
    const start = performance.now();
    const reply = harness.submit({
      n: 64,
      sampling: { temperature: 1 },
      stop: ['y'.repeat(REQUEST_LIMITS.stopCharacters)],
      badWords: Array.from({ length: REQUEST_LIMITS.badWords }, (_, i) => `word ${i}`),
      stopTokenIds: Array.from({ length: REQUEST_LIMITS.stopTokenIds }, (_, i) => i % VOCAB_SIZE),
      maxTokens: 1,
    });
    const ms = performance.now() - start;
    console.log(`all limits at once: taken in ${ms.toFixed(0)} ms`);
    expect(reply.failed).toBeUndefined();
    harness.engine.abort(reply.id);
    void harness.engine.step();
    expect(reply.failed?.code).toBe('engine.aborted');
  });
});

describe('a field out of range is refused by name', () => {
  test.each<[string, RequestOptions]>([
    [
      'logitBias',
      {
        sampling: {
          logitBias: [
            [5, 4],
            [5, -6],
          ],
        },
      },
    ],
    ['allowedTokenIds', { allowedTokenIds: [] }],
    ['allowedTokenIds', { allowedTokenIds: [VOCAB_SIZE] }],
    ['badWords', { badWords: [''] }],
    ['logprobs', { logprobs: -2 }],
    ['constraintStartsAfter', { constraintStartsAfter: '' }],
    ['stop', { stop: [''] }],
    ['thinkingTokenBudget', { thinkingTokenBudget: -1 }],
    ['truncatePromptTokens', { truncatePromptTokens: -2 }],
    ['beamSearch', { beamSearch: { lengthPenalty: NaN } }],
    ['temperature', { sampling: { temperature: 1e-40 } }],
    ['n', { n: 1.5, sampling: { temperature: 1 } }],
  ])('%s', (param, options) => {
    expect(new Harness().submit(options).failed).toMatchObject({ code: 'engine.invalid_request', param });
  });
});

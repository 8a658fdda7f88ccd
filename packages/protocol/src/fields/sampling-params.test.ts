import { describe, expect, test } from 'vitest';

import { REQUEST_LIMITS } from './request-limits.ts';
import { DEFAULT_PARAMS, findUnfitParam, readParams } from './sampling-params.ts';

describe('parameters in tokens', () => {
  test('are complete for an empty request', () => {
    expect(readParams({}, 'chat', 'tokens')).toEqual(DEFAULT_PARAMS.tokens);
    expect(DEFAULT_PARAMS.tokens).toMatchObject({
      n: 1,
      stopTokenIds: [],
      allowedTokenIds: null,
      logprobTokenIds: null,
      repetitionDetection: null,
      logprobsMode: 'raw',
    });
    expect(Object.values(DEFAULT_PARAMS.text)).not.toContain(undefined);
  });

  test('are read from the wire', () => {
    const body = {
      stop_token_ids: [3, 1, 3],
      logprob_token_ids: [],
      allowed_token_ids: [2],
      repetition_detection: { max_pattern_size: 3, min_count: 2 },
    };
    expect(readParams(body, 'chat', 'tokens')).toMatchObject({
      stopTokenIds: [3, 1],
      logprobTokenIds: null,
      allowedTokenIds: [2],
      repetitionDetection: { maxPatternSize: 3, minPatternSize: 0, minCount: 2 },
    });
    expect(readParams({ repetition_detection: {} }, 'chat', 'tokens').repetitionDetection).toBeNull();
    expect(readParams({ repetition_detection: { min_pattern_size: 1 } }, 'chat', 'tokens').repetitionDetection).toEqual(
      {
        maxPatternSize: 0,
        minPatternSize: 1,
        minCount: 0,
      },
    );
    expect(readParams(body, 'messages', 'tokens').stopTokenIds).toEqual([]);
  });
});

describe('a parameter outside its limits', () => {
  const many = (count: number): number[] => Array.from({ length: count }, () => 1);

  test('is a temperature below the minimum that requests are raised to', () => {
    const of = (temperature: number) => findUnfitParam({ ...DEFAULT_PARAMS.sampling, temperature }, 'sampling');
    for (const temperature of [0, 0.01, 1, 2]) expect(of(temperature)).toBeNull();
    for (const temperature of [-0.01, 1e-40, 0.009, 2.01, NaN])
      expect(of(temperature)).toEqual({
        name: 'temperature',
        rule: '0 or a finite number in [0.01, 2]',
        value: temperature,
      });
    expect(of(readParams({ temperature: 1e-40 }, 'chat', 'sampling').temperature)).toBeNull();
  });

  test('is found by name, a list by its length', () => {
    const tokens = { ...DEFAULT_PARAMS.tokens };
    expect(findUnfitParam(tokens, 'tokens')).toBeNull();
    expect(findUnfitParam({ ...tokens, stopTokenIds: many(REQUEST_LIMITS.stopTokenIds) }, 'tokens')).toBeNull();
    expect(findUnfitParam({ ...tokens, stopTokenIds: many(REQUEST_LIMITS.stopTokenIds + 1) }, 'tokens')).toEqual({
      name: 'stopTokenIds',
      rule: 'a list of at most 4096 items',
      value: '4097 items',
    });
    expect(findUnfitParam({ ...tokens, logprobTokenIds: many(129) }, 'tokens')).toMatchObject({
      name: 'logprobTokenIds',
      rule: 'null or a list of at most 128 items',
    });
    expect(findUnfitParam({ ...tokens, n: 0 }, 'tokens')).toMatchObject({ rule: 'an integer in [1, 16384]', value: 0 });
  });

  test('a text is as long as it likes here, and strings to stop at are as many', () => {
    const stop = Array.from({ length: 100 }, (_, at) => `stop ${at}`);
    expect(findUnfitParam({ ...DEFAULT_PARAMS.text, stop }, 'text')).toBeNull();
    expect(findUnfitParam({ ...DEFAULT_PARAMS.text, thinkingTokenBudget: -1 }, 'text')).toMatchObject({
      name: 'thinkingTokenBudget',
      rule: 'null or an integer >= 0',
    });
  });
});

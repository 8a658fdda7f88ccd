import { describe, expect, test } from 'vitest';

import { DEFAULT_SAMPLING } from './sampling-params.ts';
import { findForeignToken, type TokenIdParams } from './token-ids.ts';

const VOCAB_SIZE = 10;
const params = (
  given: Partial<TokenIdParams> & { logitBias?: readonly (readonly [number, number])[] },
): TokenIdParams => ({
  stopTokenIds: given.stopTokenIds ?? [],
  logprobTokenIds: given.logprobTokenIds ?? null,
  allowedTokenIds: given.allowedTokenIds ?? null,
  sampling: { ...DEFAULT_SAMPLING, logitBias: given.logitBias ?? [] },
});

describe('an id of the vocabulary', () => {
  test('limits every list', () => {
    const ids = [0, VOCAB_SIZE - 1];
    const all = {
      stopTokenIds: ids,
      logprobTokenIds: ids,
      allowedTokenIds: ids,
      logitBias: ids.map((id) => [id, 1e9] as const),
    };
    expect(findForeignToken(params(all), VOCAB_SIZE)).toBeNull();
    expect(findForeignToken(params({}), VOCAB_SIZE)).toBeNull();
  });

  test.each([[-1], [VOCAB_SIZE], [0.5], [NaN]])('is not %d, which is found in each list by name', (id) => {
    const rule = 'hold token ids in [0, 10)';
    for (const name of ['stopTokenIds', 'logprobTokenIds', 'allowedTokenIds'] as const)
      expect(findForeignToken(params({ [name]: [1, id] }), VOCAB_SIZE)).toEqual({ name, rule, id });
    expect(findForeignToken(params({ logitBias: [[id, 1]] }), VOCAB_SIZE)).toEqual({ name: 'logitBias', rule, id });
  });
});

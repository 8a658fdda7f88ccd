import { naming } from '@trainyard/protocol/fields';
import { describe, expect, test } from 'vitest';

import { brokenRule, check, refusal } from './check-field.ts';
import { EngineError, fromFailure, toFailure } from './errors.ts';

describe('a failure as data', () => {
  test('keeps the parameters that its message speaks of', () => {
    const text = naming`${{ field: 'minTokens' }} must be at most ${{ field: 'maxTokens' }}`;
    const error = fromFailure(structuredClone(toFailure(refusal('minTokens', text))));
    expect(error).toMatchObject({ code: 'engine.invalid_request', param: 'minTokens', text });
    expect(error.message).toBe('minTokens must be at most maxTokens');
  });

  test('has no parts if it names none, and a code if it had none', () => {
    expect(toFailure(new EngineError('engine.aborted', 'gone'))).toEqual({
      code: 'engine.aborted',
      message: 'gone',
      param: null,
    });
    expect(toFailure(new TypeError('x is undefined'))).toMatchObject({
      code: 'engine.internal',
      message: 'x is undefined',
    });
  });

  test('of a field names it, the rule and the value', () => {
    expect(() => check(true, 'topP', 'in (0, 1]', 2)).not.toThrow();
    expect(() => check(false, 'topP', 'in (0, 1]', 2)).toThrow('topP must be in (0, 1], got 2');
    expect(brokenRule('stopTokenIds', 'hold ids', -1).message).toBe('stopTokenIds must hold ids, got -1');
  });
});

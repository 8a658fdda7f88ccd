import { expect, test } from 'vitest';

import { compileValidator, toValidationItems } from './validation.ts';

/** Like the prompt of a text completion: each item fails in every branch. */
const schema = {
  type: 'object',
  properties: {
    prompt: {
      anyOf: [
        { type: 'string' },
        { type: 'array', items: { type: 'string' } },
        { type: 'array', items: { type: 'integer' } },
      ],
    },
    n: { type: 'integer' },
  },
};

function failuresOf(body: unknown) {
  const validate = compileValidator({ schema: schema as object, method: 'POST', url: '/', httpPart: 'body' });
  const isValid = validate(body) as boolean;
  const errors = (validate as { errors?: Parameters<typeof toValidationItems>[0] | null }).errors ?? [];
  return { isValid, errors, items: toValidationItems(errors, 'body', body) };
}

test('a body that fits has no failures', () => {
  expect(failuresOf({ prompt: [1, 2], n: 1 })).toEqual({ isValid: true, errors: [], items: [] });
});

test('all failures of a small body are listed', () => {
  const { isValid, items } = failuresOf({ prompt: [0.5, 1, {}], n: 'x' });
  expect(isValid).toBe(false);
  expect(items.map(({ loc }) => loc.join('.'))).toEqual(['body.prompt.0', 'body.prompt.1', 'body.prompt.2', 'body.n']);
});

test('only the first failure of a large body is listed, and failures of its values are not kept', () => {
  const { isValid, errors, items } = failuresOf({ prompt: Array.from({ length: 1_000_000 }, () => 0.5), n: 'x' });
  expect(isValid).toBe(false);
  expect(errors.length).toBeLessThan(10);
  expect(items.map(({ loc }) => loc.join('.'))).toEqual(['body.prompt.0']);
});

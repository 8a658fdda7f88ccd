import { expect, test } from 'vitest';

import { BaseModels } from './base-models.ts';

const small = { id: 'tiny/small', contextLength: 512, vocabSize: 1000 };
const large = { id: 'tiny/large', contextLength: 2048, vocabSize: 2000 };
const models = new BaseModels(() => [small, large]);

test('the first is the default', () => {
  expect(models.default).toBe(small);
  expect(models.all).toEqual([small, large]);
});

test('a model is found by its id; an unknown id is refused with the served models', () => {
  expect(models.named('tiny/large')).toBe(large);
  expect(models.find('tiny/other')).toBeNull();
  expect(() => models.named('tiny/other')).toThrow(
    expect.objectContaining({
      code: 'request.unknown_model',
      param: 'base_model',
      message: 'The base model `tiny/other` is not served here; served: tiny/small, tiny/large',
    }),
  );
});

test('a trained model has its own; one of another base is refused with the served models', () => {
  expect(models.under({ baseModel: 'tiny/large' }, { field: 'model' })).toBe(large);
  const refused = () => models.under({ baseModel: 'tiny/other' }, { field: 'model', name: 'agent' });
  expect(refused).toThrow(
    expect.objectContaining({
      code: 'request.conflict',
      param: 'model',
      message: 'The model `agent` is based on `tiny/other`, which is not served here; served: tiny/small, tiny/large',
    }),
  );
});

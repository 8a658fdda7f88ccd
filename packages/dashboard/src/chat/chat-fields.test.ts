import { expect, test } from 'vitest';

import { chatFields, fieldValue } from './chat-fields.ts';

const nullable = (schema: object) => ({ anyOf: [schema, { type: 'null' }] });
const DOCUMENT = {
  paths: {
    '/v1/chat/completions': {
      post: { requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Chat' } } } } },
    },
  },
  components: {
    schemas: {
      Chat: {
        properties: {
          messages: { type: 'array' },
          echo: { type: 'boolean' },
          stop: nullable({ anyOf: [{ type: 'string' }, { type: 'array' }] }),
          top_k: nullable({ type: 'integer', minimum: -1, description: 'Keep the k most likely.' }),
          temperature: nullable({ type: 'number', minimum: 0, maximum: 2 }),
          logprobs_mode: nullable({ enum: ['raw', 'processed'] }),
          logit_bias: nullable({ type: 'object' }),
          stream: { type: 'boolean' },
        },
      },
    },
  },
};

test('each described field has an input of its kind, the usual ones first', () => {
  const fields = chatFields(DOCUMENT);
  expect(fields.map(({ name, input }) => [name, input.kind])).toEqual([
    ['temperature', 'number'],
    ['top_k', 'number'],
    ['stop', 'text'],
    ['echo', 'boolean'],
    ['logprobs_mode', 'choice'],
    ['logit_bias', 'json'],
  ]);
  expect(fields[0]?.input).toEqual({ kind: 'number', isInteger: false, minimum: 0, maximum: 2 });
  expect(fields[1]).toMatchObject({ description: 'Keep the k most likely.', input: { isInteger: true, minimum: -1 } });
  expect(() => chatFields({})).toThrow('no chat');
});

test('typed text becomes a value of its kind, and empty text leaves the field out', () => {
  const [temperature, topK, stop, echo, , bias] = chatFields(DOCUMENT);
  expect(fieldValue(temperature!, '0.5')).toBe(0.5);
  expect(fieldValue(topK!, ' ')).toBeUndefined();
  expect(fieldValue(stop!, 'END')).toBe('END');
  expect(fieldValue(stop!, '["a", "b"]')).toEqual(['a', 'b']);
  expect(fieldValue(echo!, 'false')).toBe(false);
  expect(fieldValue(bias!, '{"5": 1}')).toEqual({ '5': 1 });
  expect(() => fieldValue(temperature!, 'warm')).toThrow('temperature should be a number');
  expect(() => fieldValue(bias!, '{')).toThrow('logit_bias should be JSON');
});

import { DEFAULT_GENERATE } from '@trainyard/generation';
import { expect, test } from 'vitest';

import type { InferenceRequest } from '../../seams/contract/backends.ts';
import { generateText, readGenerate } from './wire-request.ts';

const TRACE_PARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
const REQUEST: InferenceRequest = {
  ...DEFAULT_GENERATE,
  requestId: 'r',
  tenant: 't',
  prompt: { kind: 'text', text: 'hello', addSpecialTokens: false },
  adapter: null,
};
const read = (origin: unknown) =>
  readGenerate(JSON.parse(generateText({ model: 'm', request: { ...REQUEST, origin: origin as never } }))).request;

test('the request that an engine works for crosses, or is absent', () => {
  for (const traceParent of [TRACE_PARENT, null])
    expect(read({ requestId: 'order-1', traceParent }).origin).toEqual({ requestId: 'order-1', traceParent });
  expect(readGenerate(JSON.parse(generateText({ model: 'm', request: REQUEST }))).request).not.toHaveProperty('origin');
});

test.each([
  ['a', /must be an object/],
  [{ requestId: 'two\nlines', traceParent: null }, /requestId must be printable/],
  [{ requestId: 'r'.repeat(129), traceParent: null }, /requestId must be printable/],
  [{ requestId: 'r' }, /traceParent must be that of a span/],
  [{ requestId: 'r', traceParent: '00-0-0-01' }, /traceParent must be that of a span/],
])('a value that no client could have sent is refused: %j', (origin, words) => {
  expect(() => read(origin)).toThrow(words);
});

import { expect, test } from 'vitest';

import { withChatCalls } from './langchain-calls.ts';

const CALL = { id: 'c', type: 'function', function: { name: 'weather', arguments: { city: 'Oslo' } } };
const theirs = (fields: object = {}) => ({
  id: 'c',
  type: 'tool_call',
  name: 'weather',
  args: { city: 'Oslo' },
  ...fields,
});
const turn = (...calls: unknown[]) => ({ role: 'assistant', content: '', tool_calls: calls });

test('a call in LangChain’s format is read like a chat call, next to others and instead of them', () => {
  const items = [{ role: 'user', content: 'hi' }, turn(CALL, theirs({ id: undefined })), turn(theirs())];
  expect(withChatCalls(items)).toEqual([items[0], turn(CALL, { ...CALL, id: undefined }), turn(CALL)]);
});

test.each([
  ['calls of a chat', [turn(CALL)]],
  ['calls that have both', [turn({ ...CALL, name: 'weather', args: {} })]],
  ['arguments that are none', [turn(theirs({ args: '{}' })), turn(theirs({ args: null })), turn(theirs({ args: [] }))]],
  ['other roles', [{ ...turn(theirs()), role: 'user' }]],
  ['invalid messages', [null, 7, 'x', [], turn(null), { role: 'assistant', tool_calls: {} }]],
])('%s stay as they are', (_name, items) => {
  expect(withChatCalls(items)).toBe(items);
});

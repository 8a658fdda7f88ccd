import { expect, test } from 'vitest';

import { Conversation, fieldOf, refusalOfField } from './chat-conversation.ts';

test('a request has the set fields, the system message and every turn', () => {
  const conversation = new Conversation('m');
  conversation.setSystem('Be brief.');
  conversation.setField('temperature', 0.7);
  conversation.ask('a');
  conversation.answered('b');
  conversation.ask('c');
  expect(conversation.request()).toEqual({
    model: 'm',
    temperature: 0.7,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
      { role: 'user', content: 'c' },
    ],
  });
});

test('a question is removed with its answer, and the conversation can be reset', () => {
  const conversation = new Conversation('m');
  expect(conversation.undo()).toBe(false);
  conversation.ask('a');
  conversation.answered('b');
  conversation.ask('c');
  conversation.answered('d');
  expect(conversation.undo()).toBe(true);
  expect(conversation.request().messages).toHaveLength(2);
  conversation.reset();
  expect(conversation.request().messages).toEqual([]);
  expect(conversation.unsetField('temperature')).toBe(false);
});

test('values are parsed as JSON if possible', () => {
  expect(['0.7', 'true', '["a"]', 'medium', '"7"'].map(fieldOf)).toEqual([0.7, true, ['a'], 'medium', '7']);
});

test.each([
  ['model', 'other', 'model cannot be set'],
  ['messages', [], 'messages cannot be set'],
  ['stream', false, 'stream cannot be set'],
  ['n', 2, 'n must be 1, because a conversation continues from one reply, got 2'],
])('the field %s of %j is refused', (name, value, refusal) => {
  expect(refusalOfField(name, value)).toContain(refusal);
});

test.each([
  ['n', 1],
  ['temperature', 0],
  ['seed', 7],
])('the field %s of %j is taken', (name, value) => expect(refusalOfField(name, value)).toBeNull());

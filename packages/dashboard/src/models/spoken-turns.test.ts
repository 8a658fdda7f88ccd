import { expect, test } from 'vitest';

import { spokenTurns } from './spoken-turns.ts';

test('messages, choices, parts and calls are turns; what is none is left out', () => {
  const call = { function: { name: 'add', arguments: '{"a": 1}' } };
  const entries = [
    { role: 'system', content: 'Be short.' },
    { role: 'user', content: [{ type: 'text', text: 'What is ' }, { type: 'image' }, { text: '1 + 1?' }] },
    { finish_reason: 'tool_calls', message: { role: 'assistant', content: null, tool_calls: [call] } },
    { message: { content: 'It is 2.', tool_calls: [call] } },
    'nothing',
    null,
  ];
  expect(spokenTurns({ messages_and_choices: entries })).toEqual([
    { role: 'system', text: 'Be short.' },
    { role: 'user', text: 'What is 1 + 1?' },
    { role: 'assistant', text: 'add({"a": 1})' },
    { role: 'assistant', text: 'It is 2.\nadd({"a": 1})' },
  ]);
  expect(spokenTurns(null)).toEqual([]);
  expect(spokenTurns({ messages_and_choices: 'removed' })).toEqual([]);
});

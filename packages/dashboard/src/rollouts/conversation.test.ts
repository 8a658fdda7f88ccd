import { expect, test } from 'vitest';

import {
  commonStart,
  conversationOf,
  finalReply,
  numSharedTurns,
  promptTurns,
  questionOf,
  turnText,
} from './conversation.ts';

const CONTENT = {
  messages_and_choices: [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Weather ' },
        { type: 'text', text: 'in Rome?' },
      ],
    },
    {
      finish_reason: 'tool_calls',
      index: 0,
      token_ids: [1],
      message: {
        role: 'assistant',
        content: null,
        reasoning: 'I must look.',
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } }],
      },
    },
    { role: 'tool', tool_call_id: 'c', content: '21' },
    { role: 'assistant', content: 'It is 21.' },
  ],
  tools: [{ type: 'function', function: { name: 'weather' } }],
  additional_histories: [{ messages_and_choices: [{ role: 'user', content: 'again' }] }],
};

test('messages and choices become turns with reasoning and tool calls', () => {
  const [first, second] = conversationOf(CONTENT);
  expect(first?.tools).toEqual(['weather']);
  expect(first?.turns.map(({ role, content, isSampled }) => [role, content, isSampled])).toEqual([
    ['system', 'Be brief.', false],
    ['user', 'Weather in Rome?', false],
    ['assistant', '', true],
    ['tool', '21', false],
    ['assistant', 'It is 21.', false],
  ]);
  expect(first?.turns[2]).toMatchObject({
    reasoning: 'I must look.',
    calls: [{ name: 'weather', arguments: '{"city":"Rome"}' }],
    finishReason: 'tool_calls',
    item: 2,
  });
  expect(second?.turns).toHaveLength(1);
});

test('the last reply and the prompt are separated', () => {
  const histories = conversationOf(CONTENT);
  expect(finalReply(histories)).toBe('It is 21.');
  expect(finalReply([{ turns: histories[0]!.turns.slice(0, 3), tools: [] }])).toBe('weather({"city":"Rome"})');
  expect(promptTurns(histories).map(({ role }) => role)).toEqual(['system', 'user']);
  expect(finalReply([])).toBe('');
});

test('examples are part of the prompt; messages that all prompts share are counted', () => {
  const asked = (question: string) =>
    promptTurns(
      conversationOf({
        messages_and_choices: [
          { role: 'user', content: '1 + 1?' },
          { role: 'assistant', content: '2' },
          { role: 'user', content: question },
          { token_ids: [1], finish_reason: 'stop', message: { role: 'assistant', content: '4' } },
        ],
      }),
    );
  const prompt = asked('2 + 2?');
  expect(prompt).toHaveLength(3);
  expect(questionOf(prompt)?.content).toBe('2 + 2?');
  expect(numSharedTurns(prompt, [asked('3 + 3?'), asked('4 + 4?')])).toBe(2);
  expect(numSharedTurns(prompt, [asked('2 + 2?')])).toBe(2);
  expect(numSharedTurns(prompt, [prompt.slice(2)])).toBe(2);
  expect(numSharedTurns(prompt, [])).toBe(2);
  expect(numSharedTurns(conversationOf(CONTENT)[0]!.turns.slice(0, 2), [])).toBe(0);
  expect(commonStart([prompt, asked('3 + 3?')])).toHaveLength(2);
  expect(commonStart([])).toEqual([]);
  expect(numSharedTurns([], [])).toBe(0);
  expect(numSharedTurns([], [prompt])).toBe(0);
  expect(questionOf([])).toBeUndefined();
});

test('unknown content is shown as it was sent', () => {
  const entries = [null, 3, 'words', { message: {} }, { role: 'user', content: { odd: 1 } }];
  const [history] = conversationOf({ messages_and_choices: entries });
  expect(history?.turns.map((turn) => [turn.role, turnText(turn)])).toEqual([
    ['unknown', 'null'],
    ['unknown', '3'],
    ['unknown', '"words"'],
    ['assistant', ''],
    ['user', '{\n  "odd": 1\n}'],
  ]);
  expect(history?.turns.map(({ item }) => item)).toEqual([0, 1, 2, 3, 4]);
});

test.each([[{}], [{ messages_and_choices: 'nonsense' }], [{ messages_and_choices: [null, 3, { message: {} }] }]])(
  'unknown content does not throw: %j',
  (content) => expect(() => finalReply(conversationOf(content))).not.toThrow(),
);

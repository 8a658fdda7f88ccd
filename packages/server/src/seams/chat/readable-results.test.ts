import { expect, test } from 'vitest';

import { completeGroup } from '../../gateway/forms/exchanges/captured-exchanges.ts';
import { readSftLines } from '../../training-data/wire/sft-data.ts';
import { LeftOut } from './left-out.ts';
import { withReadableResults } from './readable-results.ts';

const PICTURE = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };
const LEFT = '[Image left out (image/png): this model reads only text.]';
const MESSAGES = [
  { role: 'user', content: 'Go.' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
  },
  { role: 'tool', tool_call_id: 'c', content: [{ type: 'text', text: 'Done.' }, PICTURE] },
];
const READABLE = {
  content: [
    { type: 'text', text: 'Done.' },
    { type: 'text', text: LEFT },
  ],
};
const POLICY = { entity: 'e', project: 'p', name: 'm' };

test('messages without such parts are the messages themselves', () => {
  const messages = [
    ...MESSAGES.slice(0, 2),
    { role: 'user', content: [PICTURE] },
    { role: 'tool', content: [{ type: 'x' }] },
  ];
  const leftOut = new LeftOut();
  expect(withReadableResults(messages, leftOut)).toBe(messages);
  expect(String(leftOut)).toBe('');
});

test('conversations, histories and recorded calls are trained as they were sampled', async () => {
  const text = JSON.stringify({ messages: [...MESSAGES, { role: 'assistant', content: 'Ok.' }] });
  for await (const line of readSftLines([Buffer.from(text)], ['body']))
    expect(line.messages[2]).toMatchObject(READABLE);

  const message = { role: 'assistant', content: 'Ok.' };
  const choice = { index: 0, message, finish_reason: 'stop', record_id: 'r' };
  const history = { messages_and_choices: [...MESSAGES, choice] };
  const exchange = { request: { messages: MESSAGES }, response: { id: 'chatcmpl-1', choices: [choice] } };
  for (const trajectory of [
    { ...history, additional_histories: [history] },
    { exchanges: { chat_completions: [exchange] } },
  ]) {
    const { group } = completeGroup({ trajectories: [{ reward: 1, ...trajectory }] } as never, 0, POLICY);
    const [first] = group.trajectories;
    for (const own of [first!, ...(first!.additional_histories ?? [])])
      expect(own.messages_and_choices?.[2]).toMatchObject(READABLE);
  }
});

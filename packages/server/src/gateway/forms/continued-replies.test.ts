import type { ChatCompletion, ErrorBody, Message, MessageEvent, MessagesError } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ScriptedService } from '../../testing/scripted-service.ts';
import { readNamedEvents } from '../../testing/test-server.ts';

/** Replies that continue the assistant's text under an output format: both together satisfy the format. */

const SCHEMA = {
  type: 'object',
  properties: { a: { enum: [1, 2] } },
  required: ['a'],
  additionalProperties: false,
};
const STARTS = ['{', '{"a"', '{"a":'];

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open({ template: 'thinking' });
  // The model would restart the JSON.
  service.setReply('{"a": 2}');
});
afterAll(() => service.close());

const turns = (start: string) => [
  { role: 'user', content: 'Give a.' },
  { role: 'assistant', content: start },
];
const asMessages = (start: string) => ({
  messages: turns(start),
  max_tokens: 40,
  temperature: 0,
  output_config: { format: { type: 'json_schema', schema: SCHEMA } },
});
const asChat = (start: string) => ({
  messages: turns(start),
  add_generation_prompt: false,
  continue_final_message: true,
  response_format: { type: 'json_schema', json_schema: { name: 'a', schema: SCHEMA } },
});
const VALUES = [{ a: 1 }, { a: 2 }];

describe.each(STARTS)('a reply that continues %s', (start) => {
  test('is the rest of the JSON in Messages, whole and in a stream', async () => {
    const answer = await service.server.request('POST', '/v1/messages', asMessages(start));
    const [block] = answer.json<Message>().content;
    const text = block?.type === 'text' ? block.text : '';
    expect(VALUES).toContainEqual(JSON.parse(start + text));
    const { body } = await service.server.request('POST', '/v1/messages', { ...asMessages(start), stream: true });
    const pieces = readNamedEvents<MessageEvent>(body).flatMap((event) =>
      event.type === 'content_block_delta' && event.delta.type === 'text_delta' ? [event.delta.text] : [],
    );
    expect(VALUES).toContainEqual(JSON.parse(start + pieces.join('')));
  });

  test('is the rest of the JSON in every choice of a chat', async () => {
    const fields = { ...asChat(start), n: 2, temperature: 1, seed: 1 };
    const { choices } = await service.answer(fields);
    for (const { message } of choices) expect(VALUES).toContainEqual(JSON.parse(start + message.content));
    const constrained = { ...fields, response_format: undefined, structured_outputs: { regex: '\\{"a": ?[12]\\}' } };
    for (const { message } of (await service.answer(constrained)).choices)
      expect(VALUES).toContainEqual(JSON.parse(start + message.content));
    const echoed = await service.answer({ ...fields, n: 1, echo: true });
    expect(VALUES).toContainEqual(JSON.parse((echoed as ChatCompletion).choices[0]?.message.content ?? ''));
  });
});

test('a text that starts nothing of the format is refused by the name of the field', async () => {
  const message = await service.server.request('POST', '/v1/messages', asMessages('Here it is: {'));
  expect([message.statusCode, message.json<MessagesError>().error.param]).toEqual([400, 'output_config']);
  expect(message.json<MessagesError>().error.message).toContain('the text to continue (Here it is: {)');
  const chat = await service.server.request('POST', '/v1/chat/completions', { ...asChat('No.'), model: 'tiny/base' });
  expect([chat.statusCode, chat.json<ErrorBody>().error.param]).toEqual([400, 'response_format']);
});

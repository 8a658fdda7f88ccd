import type { Message, MessageEvent, Response } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ScriptedService } from '../../testing/scripted-service.ts';
import { readNamedEvents } from '../../testing/test-server.ts';

/** Stop sequences of Messages and Responses are for the answer: in thoughts they do not end the reply. */

const HELLO = [{ role: 'user', content: 'Hello' }];
const REPLIES = {
  'the thoughts alone': ['<think>One STOP two.</think>Answer.', 'One STOP two.', 'Answer.', null],
  both: ['<think>One STOP two.</think>An STOP answer.', 'One STOP two.', 'An ', 'STOP'],
  'the answer': ['<think>One.</think>An STOP answer.', 'One.', 'An ', 'STOP'],
  'a reply without thoughts': ['An STOP answer.', '', 'An ', 'STOP'],
  'both sides of the end of the thoughts': ['<think>One ST</think>OP answer.', 'One ST', 'OP answer.', null],
  'a reply that only looks like thoughts': ['<thin STOP', '', '<thin ', 'STOP'],
  'thoughts without an end': ['<think>One STOP', 'One STOP', '', null],
} as const;

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open({ template: 'thinking' });
});
afterAll(() => service.close());

describe.each(Object.entries(REPLIES))('a stop sequence in %s', (_name, [reply, thoughts, answer, stop]) => {
  test('ends Messages by the answer alone, whole and in a stream', async () => {
    service.say(reply);
    const body = { messages: HELLO, max_tokens: 200, stop_sequences: ['STOP'] };
    const whole = (await service.server.request('POST', '/v1/messages', body)).json<Message>();
    const told = whole.content.map((block) =>
      'thinking' in block ? block.thinking : 'text' in block ? block.text : '',
    );
    expect(told.filter((text) => text !== '')).toEqual([thoughts, answer].filter((text) => text !== ''));
    expect([whole.stop_reason, whole.stop_sequence]).toEqual([stop === null ? 'end_turn' : 'stop_sequence', stop]);
    const streamed = await service.server.request('POST', '/v1/messages', { ...body, stream: true });
    const pieces = readNamedEvents<MessageEvent>(streamed.body).flatMap((event) =>
      event.type !== 'content_block_delta'
        ? []
        : 'text' in event.delta
          ? [event.delta.text]
          : 'thinking' in event.delta
            ? [event.delta.thinking]
            : [],
    );
    expect(pieces.join('')).toBe(thoughts + answer);
  });

  test('ends Responses by the answer alone', async () => {
    service.say(reply);
    const { output } = (
      await service.server.request('POST', '/v1/responses', { input: 'Hello', stop: ['STOP'] })
    ).json<Response>();
    const texts = output.flatMap((item) => ('content' in item ? item.content.map(({ text }) => text) : []));
    expect(texts.filter((text) => text !== '')).toEqual([thoughts, answer].filter((text) => text !== ''));
  });
});

test('a chat ends at it anywhere, as vLLM’s does', async () => {
  service.say('<think>One STOP two.</think>Answer.');
  expect((await service.reply({ stop: ['STOP'] })).stop).toBe('STOP');
});

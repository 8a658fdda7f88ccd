import type { Message, MessageEvent, Response } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ScriptedService } from '../../testing/scripted-service.ts';
import { readNamedEvents } from '../../testing/test-server.ts';

/** Stop sequences of Messages and Responses apply to the answer: in thoughts they do not end the reply. */

const HELLO = [{ role: 'user', content: 'Hello' }];
const BLOCKS = {
  'the thoughts alone': ['<think>One STOP two.</think>Answer.', 'One STOP two.', 'Answer.', null],
  both: ['<think>One STOP two.</think>An STOP answer.', 'One STOP two.', 'An ', 'STOP'],
  'the answer': ['<think>One.</think>An STOP answer.', 'One.', 'An ', 'STOP'],
  'a reply without thoughts': ['An STOP answer.', '', 'An ', 'STOP'],
  'both sides of the end of the thoughts': ['<think>One ST</think>OP answer.', 'One ST', 'OP answer.', null],
  'a reply that only looks like thoughts': ['<thin STOP', '', '<thin ', 'STOP'],
  'thoughts without an end': ['<think>One STOP', 'One STOP', '', null],
} as const;

const analysis = (text: string) => `<|channel|>analysis<|message|>${text}<|end|><|start|>assistant`;
const final = (text: string) => `<|channel|>final<|message|>${text}`;
/** Replies of gpt-oss. */
const CHANNELS = {
  'the analysis alone': [`${analysis('One STOP two.')}${final('Answer.')}`, 'One STOP two.', 'Answer.', null],
  'both channels': [`${analysis('One STOP two.')}${final('An STOP answer.')}`, 'One STOP two.', 'An ', 'STOP'],
  'the final message': [final('An STOP answer.'), '', 'An ', 'STOP'],
  'a message in front of the analysis': [
    `<|channel|>commentary<|message|>An STOP<|end|><|start|>assistant${analysis('One')}`,
    '',
    'An ',
    'STOP',
  ],
  'the header of a message': [`<|channel|>final <|constrain|>STOP<|message|>Answer.`, '', 'Answer.', null],
  'a reply without channels': ['An STOP answer.', '', 'An ', 'STOP'],
  'an analysis without an end': ['<|channel|>analysis<|message|>One STOP', 'One STOP', '', null],
} as const;
const HARMONY = `{%- if tools -%}{{ tools | tojson }}<|channel|>commentary to=functions.NAME<|message|>{}<|call|>{%- endif -%}
{%- for m in messages -%}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|start|>assistant' }}{%- endif -%}`;

const services = new Map<'blocks' | 'channels', ScriptedService>();
beforeAll(async () => {
  services.set('blocks', await ScriptedService.open({ template: 'thinking' }));
  services.set('channels', await ScriptedService.open({ template: HARMONY }));
});
afterAll(async () => {
  for (const service of services.values()) await service.close();
});

const REPLIES = [
  ...Object.entries(BLOCKS).map(([name, reply]) => [name, 'blocks', ...reply] as const),
  ...Object.entries(CHANNELS).map(([name, reply]) => [name, 'channels', ...reply] as const),
];

describe.each(REPLIES)('a stop sequence in %s', (_name, form, reply, thoughts, answer, stop) => {
  const serviceOf = () => services.get(form)!;
  test('ends Messages only in the answer, whole and in a stream', async () => {
    const service = serviceOf();
    service.setReply(reply);
    const body = { messages: HELLO, max_tokens: 200, stop_sequences: ['STOP'] };
    const whole = (await service.server.request('POST', '/v1/messages', body)).json<Message>();
    const texts = whole.content.map((block) =>
      'thinking' in block ? block.thinking : 'text' in block ? block.text : '',
    );
    expect(texts.filter((text) => text !== '')).toEqual([thoughts, answer].filter((text) => text !== ''));
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

  test('ends Responses only in the answer', async () => {
    const service = serviceOf();
    service.setReply(reply);
    const { output } = (
      await service.server.request('POST', '/v1/responses', { input: 'Hello', stop: ['STOP'] })
    ).json<Response>();
    const texts = output.flatMap((item) => ('content' in item ? item.content.map(({ text }) => text) : []));
    expect(texts.filter((text) => text !== '')).toEqual([thoughts, answer].filter((text) => text !== ''));
  });
});

test('a chat ends at it anywhere, as vLLM’s does', async () => {
  for (const [form, reply] of [
    ['blocks', BLOCKS['the thoughts alone'][0]],
    ['channels', CHANNELS['the analysis alone'][0]],
  ] as const) {
    const service = services.get(form)!;
    service.setReply(reply);
    expect((await service.reply({ stop: ['STOP'] })).stop).toBe('STOP');
  }
});

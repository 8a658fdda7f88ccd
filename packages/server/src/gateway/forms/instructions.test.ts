import type { CountTokens, InputTokens, Message, MessageEvent, Response, ResponseEvent } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ScriptedService } from '../../testing/scripted-service.ts';
import { readNamedEvents } from '../../testing/test-server.ts';

/**
 * Instructions after a turn, and two turns of a role in a row, give one prompt in every form and every count.
 */

const turns = (rule: string) =>
  `{%- for m in messages -%}${rule}{{ m.role }}: {{ m.content }};{%- endfor -%}{%- if tools -%}{%- endif -%}`;
const SYSTEM_FIRST =
  "{%- if m.role == 'system' and not loop.first -%}{{ raise_exception('system first') }}{%- endif -%}";
const ALTERNATING =
  "{%- if not loop.first and m.role == messages[loop.index0 - 1].role -%}{{ raise_exception('take turns') }}{%- endif -%}";
const TEMPLATES = {
  keeps: turns(''),
  'system first': turns(SYSTEM_FIRST),
  drops: `{%- for m in messages -%}{%- if m.role != 'system' or loop.first -%}{{ m.role }}: {{ m.content }};{%- endif -%}{%- endfor -%}`,
  alternating: turns(SYSTEM_FIRST + ALTERNATING),
};

describe.each(Object.entries(TEMPLATES))('the template %s', (name, template) => {
  let service: ScriptedService;
  beforeAll(async () => {
    service = await ScriptedService.open({ template });
    service.setReply('Ok.');
  });
  afterAll(() => service.close());

  const ask = async <Body>(url: string, body: object): Promise<Body> => {
    const answer = await service.server.request('POST', url, body);
    if (answer.statusCode !== 200) throw new Error(answer.body);
    return answer.json<Body>();
  };
  const stream = async <Event extends { type: string }>(url: string, body: object): Promise<Event | undefined> =>
    readNamedEvents<Event>((await service.server.request('POST', url, { ...body, stream: true })).body).at(-2);

  /** Prompt tokens in all forms, streams and counts. */
  async function sizes(messages: readonly { role: string; content: string }[]): Promise<number[]> {
    const input = messages.map((message) => ({ type: 'message', ...message }));
    const system = messages.filter(({ role }, index) => index === 0 && role === 'system').map(({ content }) => content);
    const [, ...others] = messages;
    const rest = (system.length > 0 ? others : messages).map(({ role, content }) => ({
      role: role === 'developer' ? 'system' : role,
      content,
    }));
    const asMessages = { messages: rest, ...(system.length > 0 ? { system: system[0] } : {}) };
    const size = ({ input_tokens: own, cache_read_input_tokens: cached }: Message['usage']) => own + cached;
    const chat = await service.answer({ messages, max_tokens: 1 });
    const event = await stream<MessageEvent>('/v1/messages', { ...asMessages, max_tokens: 1 });
    const body = (await service.server.request('POST', '/v1/responses', { input, stream: true })).body;
    const last = readNamedEvents<ResponseEvent>(body).at(-1);
    return [
      chat.usage?.prompt_tokens ?? 0,
      (await ask<Response>('/v1/responses', { input })).usage?.input_tokens ?? 0,
      last !== undefined && 'response' in last ? (last.response.usage?.input_tokens ?? 0) : 0,
      (await ask<InputTokens>('/v1/responses/input_tokens', { input })).input_tokens,
      size((await ask<Message>('/v1/messages', { ...asMessages, max_tokens: 1 })).usage),
      event?.type === 'message_delta' ? size(event.usage) : 0,
      (await ask<CountTokens>('/v1/messages/count_tokens', asMessages)).input_tokens,
      (await ask<{ count: number }>('/tokenize', { messages })).count,
    ];
  }

  const user = (content: string) => ({ role: 'user', content });
  const NOTES = {
    'a note after the user': [user('a'), { role: 'system', content: 'n' }],
    'a developer’s note in the middle': [
      { role: 'system', content: 's' },
      user('a'),
      { role: 'assistant', content: 'b' },
      user('c'),
      { role: 'developer', content: 'n' },
    ],
    'two turns of the user': [user('a'), user('c')],
  };
  const ONE: Readonly<Record<string, readonly string[]>> = {
    keeps: ['user: a;system: n;', 'system: s;user: a;assistant: b;user: c;system: n;', 'user: a;user: c;'],
    alternating: ['user: a\n\nn;', 'system: s;user: a;assistant: b;user: c\n\nn;', 'user: a\n\nc;'],
  };
  const FOLDED = ['user: a\n\nn;', 'system: s;user: a;assistant: b;user: c\n\nn;', 'user: a;user: c;'];

  test.each(Object.entries(NOTES).map(([about, messages], index) => [about, messages, index] as const))(
    'has one prompt of %s in chats, Responses and Messages, whole, in streams and in counts',
    async (_about, messages, index) => {
      expect(await service.prompt({ messages })).toBe((ONE[name] ?? FOLDED)[index]);
      const all = await sizes(messages);
      expect(all).toEqual(all.map(() => all[0]));
    },
  );

  test('finds the earlier messages in the cache', async () => {
    const story = user('The keeper of the old lighthouse counts the ships. '.repeat(8));
    const first = await ask<Response>('/v1/responses', { instructions: 'Be brief.', input: [story] });
    const { usage } = await ask<Response>('/v1/responses', {
      instructions: 'Be brief.',
      input: [
        story,
        { role: 'assistant', content: 'Ok.' },
        user('Go on.'),
        { role: 'developer', content: 'Read only.' },
      ],
    });
    expect(usage?.input_tokens_details.cached_tokens).toBeGreaterThan((first.usage?.input_tokens ?? 0) - 12);
  });
});

import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';

import { Trainyard } from '@trainyard/sdk';
import { expect, test } from 'vitest';

import { Conversation } from './chat-conversation.ts';
import { talk } from './chat-session.ts';

interface Asked {
  readonly model: string;
  readonly messages: readonly { role: string; content: string }[];
  readonly [field: string]: unknown;
}

/** Sends these lines to a model that answers `reply 1`, `reply 2` and so on; the message `refused` is refused. */
async function session(...lines: string[]) {
  const asked: Asked[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    if (typeof init.body === 'string' && init.body.includes('away')) throw new TypeError('fetch failed');
    if (url.endsWith('/models/other')) return Response.json({ id: 'local/p/other:step2' });
    if (!url.endsWith('/chat/completions'))
      return Response.json({ error: { message: 'no such model' } }, { status: 404 });
    const body = JSON.parse(init.body as string) as Asked;
    asked.push(body);
    if (body.messages.at(-1)?.content === 'refused')
      return Response.json({ error: { message: 'too hot' } }, { status: 400 });
    const chunks = ['reply ', String(asked.length)].map((content) => ({ choices: [{ index: 0, delta: { content } }] }));
    const events = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`);
    return new Response(events.join(''), { headers: { 'content-type': 'text/event-stream' } });
  }) as typeof globalThis.fetch;
  const client = new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch, maxRetries: 0 });
  const [input, replies, output] = [new PassThrough(), new PassThrough(), new PassThrough()];
  input.end(lines.map((line) => `${line}\n`).join(''));
  const texts = Promise.all([text(replies), text(output)]);
  await talk(client, new Conversation('m'), { input, replies, output });
  replies.end();
  output.end();
  const [stdout, stderr] = await texts;
  return { asked, stdout, stderr };
}

test('each question is sent with the earlier turns, and only replies go to stdout', async () => {
  const { asked, stdout } = await session('a', '', 'b');
  expect(stdout).toBe('reply 1\nreply 2\n');
  expect(asked[1]!.messages.map(({ content }) => content)).toEqual(['a', 'reply 1', 'b']);
});

test('fields, the system message and the model are set on the way', async () => {
  const { asked, stderr } = await session(
    '/set temperature 0.7',
    '/system Be brief.',
    '/model other',
    'a',
    '/unset temperature',
    'b',
  );
  expect(asked[0]).toMatchObject({ model: 'other', temperature: 0.7, stream: true });
  expect(asked[0]!.messages[0]).toEqual({ role: 'system', content: 'Be brief.' });
  expect(asked[1]).not.toHaveProperty('temperature');
  for (const line of [
    'temperature is 0.7',
    'the system message is set',
    'the model is local/p/other:step2',
    'temperature is back to its default',
  ])
    expect(stderr).toContain(`${line}\n`);
});

test('a question can be removed, and a refused one is not kept', async () => {
  const { asked, stderr } = await session('a', '/undo', 'refused', 'c', '/reset', 'd');
  expect(stderr).toContain('400: too hot\n');
  expect(asked.map(({ messages }) => messages.length)).toEqual([1, 1, 1, 1]);
});

test('a service that is away ends a question, and no conversation', async () => {
  const { asked, stderr } = await session('a', 'away', 'b');
  expect(stderr).toContain('http://h/v1: fetch failed\n');
  expect(asked[1]!.messages.map(({ content }) => content)).toEqual(['a', 'reply 1', 'b']);
});

test('it ends at /exit, and reports unknown commands', async () => {
  const { asked, stderr } = await session('/fly', '/set', '/model nobody', '/settings', '/help', '/exit', 'a');
  expect(asked).toEqual([]);
  expect(stderr).toContain('unknown command /fly; /help lists the commands\n');
  expect(stderr).toContain('give a field and a value');
  expect(stderr).toContain('404: no such model\n');
  expect(stderr).toContain('model m\n');
  expect(stderr).toContain('/unset FIELD');
});

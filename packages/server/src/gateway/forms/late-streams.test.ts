import { setTimeout } from 'node:timers/promises';

import type { ErrorBody, MessagesError, ResponseEvent } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { failure, ScriptedInference } from '../../testing/scripted-inference.ts';
import { readEvents, readNamedEvents, TestServer } from '../../testing/test-server.ts';

/**
 * Streams of long prompts: a comment comes before the first token, so that no client or proxy closes the
 * connection.
 */

const FIRST_SIGN_MS = 60;
const HELLO = [{ role: 'user', content: 'Hello' }];
const FORMS = {
  '/v1/chat/completions': { messages: HELLO },
  '/v1/completions': { prompt: 'Hello' },
  '/v1/responses': { input: 'Hello' },
  '/v1/messages': { messages: HELLO, max_tokens: 9 },
  '/inference/v1/generate': { token_ids: [1, 2], sampling_params: { max_tokens: 9 } },
};

let server: TestServer;
const scripted = new ScriptedInference();
beforeAll(async () => {
  server = await TestServer.start({ firstSignMs: FIRST_SIGN_MS });
});
afterAll(() => server.close());

describe.each(Object.entries(FORMS))('a stream of %s', (url, body) => {
  const stream = () => server.request('POST', url, { ...body, stream: true });

  test('starts with a comment if the first output takes long, and is then the same', async () => {
    server.inference.script = scripted.script;
    const quick = await stream();
    expect(quick.body).not.toContain(': keep-alive');
    server.inference.script = async function* (request, signal) {
      await setTimeout(FIRST_SIGN_MS * 3);
      yield* scripted.script(request, signal);
    };
    const late = await stream();
    expect([late.statusCode, late.headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8']);
    expect(late.body.startsWith(': keep-alive\n\n')).toBe(true);
    const names = (text: string) => text.match(/^(?:event: .*|data: \[DONE\])/gm);
    expect(names(late.body)).toEqual(names(quick.body));
  });

  test('ends with the refusal if it comes late, and is refused with its status before', async () => {
    server.inference.script = async function* () {
      yield failure('engine.overloaded', 'full');
    };
    expect((await stream()).statusCode).toBe(429);
    server.inference.script = async function* () {
      await setTimeout(FIRST_SIGN_MS * 3);
      yield failure('engine.overloaded', 'full');
    };
    const late = await stream();
    expect(late.statusCode).toBe(200);
    const events = late.body.replaceAll(': keep-alive\n\n', '');
    const last: unknown =
      url === '/v1/messages' || url === '/v1/responses'
        ? readNamedEvents(events).at(-1)
        : readEvents(events).events.at(-1);
    const { code } =
      url === '/v1/responses' ? (last as ResponseEvent & { code: string }) : (last as ErrorBody | MessagesError).error;
    expect(code).toBe('engine.overloaded');
  });
});

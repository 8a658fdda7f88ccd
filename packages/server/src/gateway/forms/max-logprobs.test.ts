import type { ChatCompletion } from '@trainyard/protocol';
import { afterEach, describe, expect, test } from 'vitest';

import { ScriptedInference } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';

let server: TestServer | null = null;
afterEach(() => server?.close());
const start = async (maxLogprobs: number) =>
  (server = await TestServer.startOn(new ScriptedInference(), {}, null, { maxLogprobs }));

describe.each([-1, 1000, 1_000_000])('with max-logprobs %i and a vocabulary of 1000', (maxLogprobs) => {
  test('-1 asks the engine for all of it, of reply and prompt, in each form', async () => {
    const own = await start(maxLogprobs);
    const answer = await own.chat({ logprobs: true, top_logprobs: -1, prompt_logprobs: -1, max_tokens: 3 });
    expect(answer.statusCode, answer.body).toBe(200);
    expect(own.inference.requests.at(-1)).toMatchObject({ logprobs: 1000, promptLogprobs: 1000 });
    expect(answer.json<ChatCompletion>().choices).toHaveLength(1);
    const echo = await own.chat({ echo: true, logprobs: true, top_logprobs: -1, max_tokens: 3 });
    expect(echo.statusCode, echo.body).toBe(200);
    expect(own.inference.requests.at(-1)).toMatchObject({ promptLogprobs: 1000 });
    const text = await own.request('POST', '/v1/completions', { prompt: [1, 2], prompt_logprobs: -1, max_tokens: 1 });
    expect(text.statusCode, text.body).toBe(200);
    expect(own.inference.requests.at(-1)).toMatchObject({ promptLogprobs: 1000 });
    const ids = { token_ids: [1, 2], sampling_params: { logprobs: -1, prompt_logprobs: -1, max_tokens: 1 } };
    const tokens = await own.request('POST', '/inference/v1/generate', ids);
    expect(tokens.statusCode, tokens.body).toBe(200);
    expect(own.inference.requests.at(-1)).toMatchObject({ logprobs: 1000, promptLogprobs: 1000 });
  });
});

test('a number above the setting is 400 and names it', async () => {
  const { chat, request } = bind(await start(5));
  const refused = [
    [await chat({ logprobs: true, top_logprobs: 6 }), 'top_logprobs'],
    [await chat({ logprobs: true, top_logprobs: -1 }), 'top_logprobs'],
    [await chat({ prompt_logprobs: 6 }), 'prompt_logprobs'],
    [await request('POST', '/v1/completions', { prompt: 'a', logprobs: 6 }), 'logprobs'],
    [await request('POST', '/v1/completions', { prompt: 'a', prompt_logprobs: -1 }), 'prompt_logprobs'],
  ] as const;
  for (const [{ statusCode, body }, param] of refused) {
    expect(statusCode, body).toBe(400);
    expect(JSON.parse(body)).toMatchObject({
      error: { param, message: expect.stringContaining('at most 5 (--max-logprobs)') },
    });
  }
  expect((await chat({ logprobs: true, top_logprobs: 5 })).statusCode).toBe(200);
});

test('the entries of one answer are bounded under any setting', async () => {
  const { chat, request } = bind(await start(-1));
  const whole = { logprobs: true, top_logprobs: -1 };
  expect((await chat({ ...whole, max_tokens: 262, n: 4 })).statusCode).toBe(200);
  const refused = [
    await chat({ ...whole, max_tokens: 263, n: 4 }),
    await chat({ ...whole, n: 3 }),
    await request('POST', '/v1/completions', { prompt: ['a', 'b', 'c'], logprobs: 999, max_tokens: 400 }),
  ];
  for (const { statusCode, body } of refused) {
    expect(statusCode, body).toBe(400);
    expect(body).toContain('at most 1048576 entries over all choices');
  }
});

function bind(own: TestServer) {
  return { chat: own.chat.bind(own), request: own.request.bind(own) };
}

/** Limits of keys over HTTP: counted requests, affected routes, and the refusal of each form. */
import { request as httpRequest } from 'node:http';

import type { LightMyRequestResponse } from 'fastify';
import type { ApiKeyObject, CreatedKeyObject, ErrorBody, KeyLimitsRequest } from '@trainyard/protocol';
import { NO_LIMITS } from '@trainyard/store';
import OpenAI from 'openai';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { replies, ScriptedInference } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
let admin: { authorization: string };
/** While the clock is stopped no bucket fills. */
let stopped: number | null;
beforeEach(async () => {
  stopped = Date.now();
  server = await TestServer.startOn(new ScriptedInference(), {}, null, { clock: () => stopped ?? Date.now() });
  admin = { authorization: `Bearer ${await server.makeKey('acme', ['admin'])}` };
});
afterEach(() => server.close());

const USER = [{ role: 'user', content: 'hello' }];
/** Prompt and choice of the scripted answer. */
const TOKENS_OF_A_CHAT = 6;

interface LimitedKey {
  readonly id: string;
  readonly secret: string;
  /** Sent with each request. */
  readonly headers: { authorization: string };
  chat(fields?: object, headers?: Record<string, string>): Promise<LightMyRequestResponse>;
  send(url: string, body: object, headers?: Record<string, string>): Promise<LightMyRequestResponse>;
}

async function limitedKey(limits: KeyLimitsRequest, at = server): Promise<LimitedKey> {
  const body = { name: 'ci', scopes: ['inference', 'training'], limits };
  const made = await at.request('POST', '/v1/keys', body, admin);
  expect(made.statusCode, made.body).toBe(200);
  const { id, secret } = made.json<CreatedKeyObject>();
  const headers = { authorization: `Bearer ${secret}` };
  return {
    id,
    secret: secret ?? '',
    headers,
    chat: (fields = {}, more = {}) =>
      at.request('POST', '/v1/chat/completions', { messages: USER, ...fields }, { ...headers, ...more }),
    send: (url, sent, more = {}) => at.request('POST', url, sent, { ...headers, ...more }),
  };
}

const rateHeadersOf = ({ headers }: LightMyRequestResponse) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-ratelimit-')));

test('requests above the limit are 429 with the headers of OpenAI’s clients, until one is free again', async () => {
  const key = await limitedKey({ requests_per_minute: 2 });
  const first = await key.chat();
  expect([first.statusCode, rateHeadersOf(first)]).toEqual([
    200,
    {
      'x-ratelimit-limit-requests': '2',
      'x-ratelimit-remaining-requests': '1',
      'x-ratelimit-reset-requests': '30s',
    },
  ]);
  const streamed = await key.chat({ stream: true });
  expect(streamed.headers).toMatchObject({ 'content-type': 'text/event-stream; charset=utf-8' });
  expect(streamed.headers['x-ratelimit-remaining-requests']).toBe('0');
  const refused = await key.chat();
  expect(refused.statusCode).toBe(429);
  expect(refused.json<ErrorBody>().error).toEqual({
    message: 'Rate limit reached: this key may send 2 requests per minute (requests_per_minute); retry in 30s',
    type: 'rate_limit_error',
    param: null,
    code: 'rate_limit_exceeded',
  });
  const waits = { 'retry-after': '30', 'retry-after-ms': '30000', 'x-should-retry': 'true' };
  expect(refused.headers).toMatchObject(waits);
  // Other keys are not limited by it.
  expect((await server.chat()).statusCode).toBe(200);
  expect(rateHeadersOf(await server.chat())).toEqual({});
  const text = (await server.app.inject({ url: '/metrics' })).body;
  expect(text).toMatch(/^trainyard_key_limit_refusals_total\{limit="requests_per_minute",.*\} 1$/m);
  expect(text).toMatch(/^trainyard_key_limit_refusals_total\{limit="tokens_per_minute",.*\} 0$/m);
  expect(text).not.toContain(key.id);
});

test('a key without limits, and a look with one that has some, ask the store nothing', async () => {
  const spend = vi.spyOn(server.store.keys, 'spend');
  const key = await limitedKey({ requests_per_minute: 1 });
  await server.chat();
  await server.chat({ stream: true });
  for (const url of ['/v1/models', '/v1/preview/usage', '/v1/preview/training-jobs'])
    expect((await server.request('GET', url, undefined, key.headers)).statusCode, url).toBe(200);
  expect((await key.send('/v1/tokenize', { prompt: 'x' })).statusCode).toBe(200);
  expect(spend).not.toHaveBeenCalled();
  await key.chat();
  expect(spend).toHaveBeenCalledOnce();
});

test('every sampling API counts, and refuses in its own shape', async () => {
  const key = await limitedKey({ requests_per_minute: 5 });
  const forms: [url: string, body: object][] = [
    ['/v1/chat/completions', { messages: USER }],
    ['/v1/completions', { prompt: ['a', 'b'] }],
    ['/v1/responses', { input: 'x', store: false }],
    ['/v1/messages', { model: 'tiny/base', messages: USER, max_tokens: 5 }],
    ['/inference/v1/generate', { token_ids: [1], sampling_params: { max_tokens: 5 } }],
  ];
  for (const [url, body] of forms) {
    const answer = await key.send(url, body);
    expect(answer.statusCode, `${url}: ${answer.body}`).toBe(200);
  }
  for (const [url, body] of forms) {
    const answer = await key.send(url, body);
    expect([answer.statusCode, answer.headers['retry-after']], url).toEqual([429, '12']);
    const { error, type } = answer.json<ErrorBody & { type?: string }>();
    expect(error, url).toMatchObject({ type: 'rate_limit_error', code: 'rate_limit_exceeded' });
    if (url === '/v1/messages') expect(type).toBe('error');
  }
});

test('Messages report the remaining limits in Anthropic’s headers', async () => {
  stopped = Date.UTC(2026, 10, 25, 12);
  const key = await limitedKey({ requests_per_minute: 2, tokens_per_minute: 60 });
  const message = { model: 'tiny/base', messages: USER, max_tokens: 5 };
  const told = async (body: object) => {
    const { statusCode, headers } = await key.send('/v1/messages', body);
    const rates = Object.entries(headers).filter(([name]) => name.includes('ratelimit-'));
    return [
      statusCode,
      Object.fromEntries(rates.map(([name, value]) => [name.replace('anthropic-ratelimit-', ''), value])),
    ];
  };
  const requests = { 'requests-limit': '2', 'requests-remaining': '1', 'requests-reset': '2026-11-25T12:00:30Z' };
  const tokens = { 'tokens-limit': '60', 'tokens-remaining': '60', 'tokens-reset': '2026-11-25T12:00:00Z' };
  expect(await told(message)).toEqual([200, { ...requests, ...tokens }]);
  const none = { 'requests-remaining': '0', 'requests-reset': '2026-11-25T12:01:00Z' };
  const one = { 'tokens-remaining': String(60 - TOKENS_OF_A_CHAT), 'tokens-reset': '2026-11-25T12:00:06Z' };
  expect(await told({ ...message, stream: true })).toEqual([200, { ...requests, ...tokens, ...none, ...one }]);
  const two = { 'tokens-remaining': String(60 - 2 * TOKENS_OF_A_CHAT), 'tokens-reset': '2026-11-25T12:00:12Z' };
  expect(await told(message)).toEqual([429, { ...requests, ...tokens, ...none, ...two }]);
});

test('queued work counts only as a request; cancels, deletes and reads do not count', async () => {
  const modelId = await server.makeModel('agent');
  const key = await limitedKey({ requests_per_minute: 1, max_requests_in_flight: 1, tokens_per_minute: 1 });
  const trajectories = [0, 1].map((reward) => ({
    reward,
    messages_and_choices: [USER[0], { role: 'assistant', content: 'x' }],
  }));
  const body = {
    model_id: modelId,
    trajectory_groups: [{ trajectories }],
    experimental_config: { allow_training_without_logprobs: true },
  };
  const made = await key.send('/v1/preview/training-jobs', body);
  expect(made.statusCode, made.body).toBe(200);
  expect((await key.send('/v1/preview/training-jobs', body)).statusCode).toBe(429);
  expect((await key.send(`/v1/preview/models/${modelId}/exports`, { format: 'peft' })).statusCode).toBe(429);
  const sft = { model_id: modelId, training_data_url: 'wandb-artifact:///acme/demo/data:v0' };
  expect((await key.send('/v1/preview/sft-training-jobs', sft)).statusCode).toBe(429);
  const { id } = made.json<{ id: string }>();
  expect((await key.send(`/v1/preview/training-jobs/${id}/cancel`, {})).statusCode).toBe(200);
  const gone = await server.request('DELETE', `/v1/preview/models/${modelId}`, undefined, key.headers);
  expect(gone.statusCode).toBe(200);
});

test('tokens are those of all choices and prompts, and tokens beyond the limit are a debt', async () => {
  const key = await limitedKey({ tokens_per_minute: 60 });
  const first = await key.chat({ n: 20 });
  expect(first.headers).toMatchObject({
    'x-ratelimit-limit-tokens': '60',
    'x-ratelimit-remaining-tokens': '60',
    'x-ratelimit-reset-tokens': '0s',
  });
  const refused = await key.chat();
  expect(refused.statusCode).toBe(429);
  // A prompt of 3 and 20 choices of 3 are 63 of 60, and one is refilled per second.
  expect(refused.json<ErrorBody>().error.message).toMatch(
    /^Rate limit reached: this key may use 60 tokens per minute \(tokens_per_minute\), prompts and completions, and has used 63; /,
  );
  expect(refused.headers['retry-after']).toBe('4');
});

test('a failed request counts with its sampled tokens; a repeat counts as a request', async () => {
  const key = await limitedKey({ requests_per_minute: 10, tokens_per_minute: 100 });
  const left = async () => {
    // Tokens of a request are reported with the next.
    const answer = await key.chat({ model: 'nobody' });
    expect(answer.statusCode).toBe(404);
    return [answer.headers['x-ratelimit-remaining-requests'], answer.headers['x-ratelimit-remaining-tokens']];
  };
  expect(await left()).toEqual(['9', '100']);
  const once = { 'idempotency-key': 'once' };
  expect((await key.chat({}, once)).statusCode).toBe(200);
  expect(await left()).toEqual(['7', String(100 - TOKENS_OF_A_CHAT)]);
  const again = await key.chat({}, once);
  expect(again.headers['idempotent-replayed']).toBe('true');
  expect(await left()).toEqual(['5', String(100 - TOKENS_OF_A_CHAT)]);
  server.inference.script = function* (request) {
    const [started] = replies(request, []);
    yield started!;
    yield { kind: 'delta', index: 0, text: 'x', tokenIds: [1, 2], logprobs: null };
    throw new Error('the engine broke');
  };
  expect((await key.chat({ stream: true })).body).toContain('"code":"internal"');
  expect((await key.chat()).statusCode).toBe(500);
  expect(await left()).toEqual(['2', String(100 - TOKENS_OF_A_CHAT - 5 - 5)]);
});

test('a request that the engine is too full for does not count', async () => {
  const key = await limitedKey({ requests_per_minute: 1 });
  server.inference.hasCapacity = false;
  expect((await key.chat()).json<ErrorBody>().error.code).toBe('engine.overloaded');
  server.inference.hasCapacity = true;
  expect((await key.chat()).statusCode).toBe(200);
});

test('places are taken until the end of an answer, or until its client leaves', async () => {
  const key = await limitedKey({ max_requests_in_flight: 1 });
  const url = new URL('/v1/chat/completions', await server.app.listen({ port: 0, host: '127.0.0.1' }));
  server.inference.script = async function* (_request, signal) {
    yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
    while (!signal.aborted) {
      yield { kind: 'delta', index: 0, text: 'x', tokenIds: [1], logprobs: null };
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const outgoing = httpRequest(url, {
    method: 'POST',
    headers: { ...key.headers, 'content-type': 'application/json' },
    agent: false,
  });
  outgoing.on('error', () => undefined);
  outgoing.end(JSON.stringify({ messages: USER, stream: true }));
  await new Promise((resolve) => outgoing.on('response', resolve));
  const refused = await key.chat();
  expect(refused.json<ErrorBody>().error.message).toContain('(max_requests_in_flight) and all are in use');
  expect(refused.headers).toMatchObject({ 'retry-after': '1' });
  outgoing.destroy();
  server.inference.script = (request) => replies(request, [{ ids: [5], text: 'x' }]);
  await vi.waitFor(async () => expect((await key.chat()).statusCode).toBe(200), 30_000);
  expect((await key.chat()).statusCode).toBe(200);
});

test('two processes have one limit', async () => {
  const two = await server.startAnother('two');
  const [here, there] = [await limitedKey({ requests_per_minute: 10 }), two];
  const chatThere = () => there.chat({}, here.headers);
  const answers = await Promise.all(Array.from({ length: 30 }, (_, index) => (index % 2 ? here.chat() : chatThere())));
  expect(answers.filter(({ statusCode }) => statusCode === 200)).toHaveLength(10);
  expect(answers.filter(({ statusCode }) => statusCode === 429)).toHaveLength(20);
  await two.close();
});

test('limits are shown, changed one by one, and taken away, for the next request', async () => {
  const key = await limitedKey({ requests_per_minute: 1, tokens_per_minute: null });
  const change = (body: object) => server.request('POST', `/v1/keys/${key.id}`, body, admin);
  await key.chat();
  expect((await key.chat()).statusCode).toBe(429);
  const raised = await change({ limits: { requests_per_minute: 100, max_requests_in_flight: 5 } });
  expect(raised.json<ApiKeyObject>().limits).toEqual({
    requests_per_minute: 100,
    tokens_per_minute: null,
    max_requests_in_flight: 5,
  });
  expect((await key.chat()).headers['x-ratelimit-remaining-requests']).toBe('98');
  await change({ limits: { requests_per_minute: null, max_requests_in_flight: null } });
  expect(await server.store.keys.get(key.id)).toMatchObject({ limits: NO_LIMITS });
  expect(rateHeadersOf(await key.chat())).toEqual({});
  expect((await change({ limits: {} })).statusCode).toBe(200);
});

test.each([
  [{ limits: { requests_per_minute: 0 } }, 'limits.requests_per_minute'],
  [{ limits: { tokens_per_minute: 1.5 } }, 'limits.tokens_per_minute'],
  [{ limits: { tokens_per_minute: 1_000_000_001 } }, 'limits.tokens_per_minute'],
  [{ limits: { max_requests_in_flight: '5' } }, 'limits.max_requests_in_flight'],
  [{ limits: { requests_per_second: 5 } }, 'limits.requests_per_second'],
  [{ limits: null }, 'limits'],
  [{}, 'limits'],
])('%j is refused for %s', async (body, param) => {
  const key = await limitedKey({});
  const response = await server.request('POST', `/v1/keys/${key.id}`, body, admin);
  expect([response.statusCode, response.json<ErrorBody>().error.param], response.body).toEqual([422, param]);
  expect(await server.store.keys.get(key.id)).toMatchObject({ limits: NO_LIMITS });
});

test('only an admin of its entity changes the limits of a key', async () => {
  const key = await limitedKey({ requests_per_minute: 5 });
  const body = { limits: { requests_per_minute: null } };
  expect((await key.send(`/v1/keys/${key.id}`, body)).statusCode).toBe(403);
  const theirs = { authorization: `Bearer ${await server.makeKey('other', ['admin'])}` };
  expect((await server.request('POST', `/v1/keys/${key.id}`, body, theirs)).statusCode).toBe(404);
  expect((await server.request('POST', '/v1/keys/nobody', body, admin)).statusCode).toBe(404);
});

test('OpenAI’s unmodified client waits as requested, then succeeds; without retries it throws RateLimitError', async () => {
  const key = await limitedKey({ requests_per_minute: 60 });
  stopped = null;
  const baseURL = `${await server.app.listen({ port: 0, host: '127.0.0.1' })}/v1`;
  const chat = (client: OpenAI) =>
    client.chat.completions.create({ model: 'tiny/base', messages: [{ role: 'user', content: 'x' }] });
  const patient = new OpenAI({ baseURL, apiKey: key.secret, maxRetries: 5 });
  await Promise.all(Array.from({ length: 60 }, () => key.chat()));
  const impatient = new OpenAI({ baseURL, apiKey: key.secret, maxRetries: 0 });
  const error: unknown = await chat(impatient).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(OpenAI.RateLimitError);
  expect(error).toMatchObject({ status: 429, code: 'rate_limit_exceeded', type: 'rate_limit_error' });
  const numBefore = server.inference.requests.length;
  const answers = await Promise.all([chat(patient), chat(patient)]);
  expect(answers.map(({ choices }) => choices[0]?.message.content)).toEqual(['hi', 'hi']);
  expect(server.inference.requests.length).toBe(numBefore + 2);
});

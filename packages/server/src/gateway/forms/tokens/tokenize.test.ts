import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ErrorBody, TokenizeResponse } from '@trainyard/protocol';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
  await server.addCheckpoint(await server.makeModel('agent'), 'a');
});
afterAll(() => server.close());

const messages = [{ role: 'user', content: 'x' }];

describe.each(['/v1/tokenize', '/tokenize'])('POST %s', (path) => {
  test('a text, with the beginning-of-text token by default', async () => {
    const response = await server.request('POST', path, { prompt: 'ab', return_token_strs: true });
    const answer = { count: 3, max_model_len: 512, tokens: [1, 97, 98], token_strs: ['\u0001', 'a', 'b'] };
    expect(response.json()).toEqual(answer);
    const plain = await server.request('POST', path, { prompt: 'ab', add_special_tokens: 'no' });
    expect(plain.json()).toEqual({ count: 2, max_model_len: 512, tokens: [97, 98], token_strs: null });
  });

  test('a conversation, rendered as the model would be asked', async () => {
    const fields = {
      messages,
      tools: null,
      chat_template_kwargs: { enable_thinking: true },
      add_generation_prompt: false,
      continue_final_message: true,
      chat_template: '{{ 1 }}',
    };
    const response = await server.request('POST', path, { model: 'agent:step1', ...fields });
    expect(response.json<TokenizeResponse>().count).toBe(3);
    expect(server.inference.lastTokenized).toEqual({
      kind: 'chat',
      messages,
      tools: null,
      toolsText: null,
      templateVariables: { enable_thinking: true },
      templateVariablesText: null,
      addGenerationPrompt: false,
      continueFinalMessage: true,
      addSpecialTokens: false,
      chatTemplate: '{{ 1 }}',
    });
  });

  test('a conversation with documents and an effort, as a chat has them', async () => {
    const fields = { messages, documents: [{ title: 't', text: 'x' }], reasoning_effort: 'none' };
    expect((await server.request('POST', path, fields)).statusCode).toBe(200);
    const { templateVariables } = server.inference.lastTokenized as { templateVariables: unknown };
    expect(templateVariables).toEqual({
      enable_thinking: false,
      reasoning_effort: 'none',
      documents: [{ title: 't', text: 'x' }],
    });
  });

  test.each([
    [{}, 400, 'request.conflict', 'prompt'],
    [{ prompt: 'a', documents: [{ text: 'x' }] }, 400, 'request.conflict', 'documents'],
    [{ prompt: 'a', reasoning_effort: 'low' }, 400, 'request.conflict', 'reasoning_effort'],
    [{ prompt: 'a', messages }, 400, 'request.conflict', 'messages'],
    [{ prompt: 'a', add_generation_prompt: true }, 400, 'request.conflict', 'add_generation_prompt'],
    [{ messages, continue_final_message: true }, 400, 'request.conflict', 'continue_final_message'],
    [{ messages, chat_template_kwargs: { tokenize: true } }, 400, 'request.conflict', 'chat_template_kwargs'],
    [{ messages: [{ role: 'user', content: null }] }, 400, 'request.invalid', 'messages.0.content'],
    [{ prompt: 5 }, 400, 'request.invalid', 'prompt'],
    [{ prompt: 'a', model: 'nobody' }, 404, 'request.unknown_model', 'model'],
  ])('%j is refused', async (body, status, code, param) => {
    const response = await server.request('POST', path, body);
    const { error } = response.json<ErrorBody>();
    expect([response.statusCode, error.code, error.param]).toEqual([status, code, param]);
  });
});

describe.each(['/v1/detokenize', '/detokenize'])('POST %s', (path) => {
  test('ids as text', async () => {
    expect((await server.request('POST', path, { tokens: [104, 105] })).json()).toEqual({ prompt: 'hi' });
    expect((await server.request('POST', path, { tokens: [] })).json()).toEqual({ prompt: '' });
  });

  test.each([
    [{}, 400, 'request.invalid', 'tokens'],
    [{ tokens: [-1] }, 400, 'request.invalid', 'tokens.0'],
    [{ tokens: [1000] }, 400, 'engine.invalid_request', 'tokens'],
    [{ tokens: [1], model: 'x/y/z' }, 404, 'request.unknown_model', 'model'],
  ])('%j is refused', async (body, status, code, param) => {
    const response = await server.request('POST', path, body);
    const { error } = response.json<ErrorBody>();
    expect([response.statusCode, error.code, error.param]).toEqual([status, code, param]);
  });
});

describe('GET /v1/models/{model}', () => {
  test.each([
    ['tiny/base', 'tiny/base', null],
    ['agent', 'acme/demo/agent:step1', 'tiny/base'],
    ['agent@0', 'acme/demo/agent:step0', 'tiny/base'],
    ['acme/demo/agent:step1', 'acme/demo/agent:step1', 'tiny/base'],
    ['wandb-artifact:///acme/demo/agent', 'acme/demo/agent:step1', 'tiny/base'],
  ])('%s', async (name, id, parent) => {
    for (const path of [name, encodeURIComponent(name)]) {
      const response = await server.request('GET', `/v1/models/${path}`);
      expect([response.statusCode, response.json()], path).toMatchObject([200, { id, parent, max_model_len: 512 }]);
    }
  });

  test.each([
    ['nobody', 404],
    ['acme/demo/agent:step9', 404],
    ['x'.repeat(400), 404],
    ['%E0%A4%A', 400],
  ])('%s is refused', async (name, status) => {
    const response = await server.request('GET', `/v1/models/${name}`);
    expect(response.statusCode, response.body).toBe(status);
    expect(response.json<ErrorBody>().error.code).toMatch(/^request\./);
  });

  test('another method is 405', async () => {
    const response = await server.request('POST', '/v1/models/acme/demo/agent', {});
    expect([response.statusCode, response.headers.allow]).toEqual([405, 'GET, HEAD']);
  });
});

test.each(['/version', '/v1/version'])('%s returns the version of the service', async (path) => {
  expect((await server.app.inject({ url: path })).json()).toEqual({ version: '0.1.0' });
});

test.each(['/v1/health', '/health', '/ping'])('%s is 503 while sampling is down', async (path) => {
  expect((await server.app.inject({ url: path })).json()).toMatchObject({ status: 'healthy', reasons: [] });
  server.inference.healthy = false;
  const response = await server.app.inject({ url: path });
  server.inference.healthy = true;
  const reasons = [{ part: 'inference', reason: 'it is being started' }];
  expect(response.statusCode).toBe(503);
  expect(response.json()).toMatchObject({ status: 'degraded', reasons, parts: { engines: { ready: 0, total: 1 } } });
});

test.each(['/tokenizer_info', '/v1/tokenizer_info'])('%s returns template and tokens; it takes a key', async (url) => {
  expect((await server.request('GET', url)).json()).toMatchObject({
    chat_template: expect.any(String),
    eos_token: expect.any(String),
    model_max_length: expect.any(Number),
  });
  expect((await server.app.inject({ url })).statusCode).toBe(401);
});

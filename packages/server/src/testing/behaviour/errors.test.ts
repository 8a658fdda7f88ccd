/**
 * Reference §7: shapes, types and the catalogue of errors. The status and type of every code are in
 * docs/reference/errors.md, which a test compares.
 */
import { afterAll, beforeAll, describe, expect } from 'vitest';
import type { ErrorBody } from '@trainyard/protocol';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';

let service: ScriptedService;
let mute: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open({
    template: "{% if messages | length > 2 %}{{ raise_exception('two at most') }}{% endif %}x",
  });
  mute = await ScriptedService.open({ template: null });
});
afterAll(async () => {
  await service.close();
  await mute.close();
});

const post = (body: string, headers: Record<string, string> = {}) =>
  service.server.request('POST', '/v1/chat/completions', body, headers);
const user = { role: 'user', content: 'x' };
const MESSAGES = JSON.stringify({ messages: [user], max_tokens: 1 });

describe('requests that vLLM refuses with 400 before it checks fields', () => {
  test('malformed JSON is 400 with its position', async () => {
    const response = await post('{"messages": [}');
    const { detail, error } = response.json<ErrorBody>();
    expect([response.statusCode, error.code, error.param]).toEqual([400, 'request.invalid_json', 'body']);
    expect(detail).toMatchObject([{ loc: ['body', 14], type: 'json_invalid' }]);
  });

  test.each([['text/plain'], ['application/x-www-form-urlencoded']])('the content type %s is 415', async (type) => {
    const response = await post(MESSAGES, { 'content-type': type });
    const { error } = response.json<ErrorBody>();
    expect([response.statusCode, error.code, error.param]).toEqual([415, 'request.unsupported_media_type', null]);
  });

  test('parameters of the right one are fine', async () => {
    expect((await post(MESSAGES, { 'content-type': 'application/json; charset=utf-8' })).statusCode).toBe(200);
  });
});

describe('who may', () => {
  test('no key is 401 in both shapes, vLLM has a string; health is open', async () => {
    const { app } = service.server;
    const response = await app.inject({
      method: 'POST',
      url: '/v1/chat/completions',
      payload: MESSAGES,
      headers: { 'content-type': 'application/json' },
    });
    expect(response.statusCode).toBe(401);
    expect(response.json()).toMatchObject({ detail: expect.any(String), error: { type: 'authentication_error' } });
    expect((await app.inject({ url: '/v1/health' })).statusCode).toBe(200);
  });
});

describe('the model and its template', () => {
  test('an unknown model is 404 naming it', async () => {
    expect(await service.refusal({ model: 'nobody' })).toBe('404 model');
    expect(await service.refusal({ model: 'nobody', stream: true })).toBe('404 model');
  });
  test('a template that raises gives its own reason', async () => {
    const messages = [user, user, user];
    expect(await service.refusal({ messages })).toBe('400 messages');
    expect(await service.message({ messages })).toContain('two at most');
    expect(await service.refusal({ messages, stream: true })).toBe('400 messages');
  });
  test('a model without one takes no conversation', async () => {
    expect(await mute.refusal({})).toBe('400 messages');
    expect(await mute.message({})).toContain('no chat template');
    expect(await mute.message({})).toContain('chat_template');
  });
});

test('every refusal has a message, a type, the field, a code, and a retry hint', async () => {
  for (const fields of [
    { temperature: 5 },
    { n: 2, temperature: 0 },
    { model: 'nobody' },
    { messages: [user, user, user] },
  ]) {
    const response = await service.server.chat(fields);
    const { detail, error } = response.json<ErrorBody>();
    expect(Object.keys(error).toSorted()).toEqual(['code', 'message', 'param', 'type']);
    expect(error.type).toBe(response.statusCode === 404 ? 'not_found_error' : 'invalid_request_error');
    expect(detail === error.message || Array.isArray(detail)).toBe(true);
    expect(response.headers['x-should-retry']).toBe('false');
  }
});

/**
 * Section 16 of the reference for chat completions, vector by vector: the request, vLLM's answer, this
 * service's answer.
 */
import { afterAll, beforeAll, describe, expect } from 'vitest';
import type { ErrorBody, ValidationItem } from '@trainyard/protocol';

import type { InferenceRequest } from '../../seams/contract/backends.ts';
import { test } from '../behaviour-test.ts';
import { ScriptedEngineInference } from '../scripted-engine.ts';
import { TestServer } from '../test-server.ts';

let server: TestServer<ScriptedEngineInference>;
beforeAll(async () => {
  server = await TestServer.startOn(await ScriptedEngineInference.open({ template: 'tools' }));
  server.inference.model.setReply('{"a":1}');
});
afterAll(async () => {
  await server.close();
  server.inference.close();
});

/** A type or a limit of one field, in FastAPI's list form. */
const invalid = (param: string) => ({ status: 400, param });
/** Fields, or a field and the model, that contradict each other. */
const conflict = (param: string | null) => ({ status: 400, param });
type Refusal = ReturnType<typeof conflict>;
/** Effect of an accepted request on the engine's request. */
type Effect = readonly [read: (request: InferenceRequest) => unknown, expected: unknown];
type Vector = readonly [fields: Record<string, unknown>, reference: string, ours: Refusal | Effect];
const isRefusal = (ours: Refusal | Effect): ours is Refusal => 'status' in ours;

/** Equal to a request without the fields. */
const WITHOUT_EFFECT: Effect = [(request) => essence(request), 'of a plain request'];
const T = [{ type: 'function', function: { name: 'f' } }];
const AB = { type: 'object', properties: { a: { type: 'integer' } } };
const messages = (...list: unknown[]) => ({ messages: list });
const templateMessage: Effect[0] = ({ prompt }) => prompt.kind === 'chat' && prompt.messages[0];
const call = (args: unknown) => ({ id: '1', type: 'function', function: { name: 'f', arguments: args } });

// prettier-ignore
const VECTORS: readonly Vector[] = [
  [{ messages: [] }, 'accepted by validation', [({ prompt }) => prompt.kind === 'chat' && prompt.messages, []]],

  [{ temperature: '0.5' }, '200, 0.5', [({ sampling }) => sampling.temperature, 0.5]],
  [{ temperature: 0.001 }, 'runs at 0.01', [({ sampling }) => sampling.temperature, 0.01]],
  [{ temperature: 3 }, '400 param temperature', invalid('temperature')],
  [{ temperature: 0, n: 2 }, '400 param null', conflict('n')],
  [{ n: '2' }, '200', [({ n }) => n, 2]],
  [{ n: 0 }, '400', invalid('n')],
  [{ n: null }, '1', [({ n }) => n, 1]],
  [{ top_k: -1 }, 'ok', [({ sampling }) => sampling.topK, 0]],
  [{ top_k: -2 }, '400', invalid('top_k')],
  [{ top_k: '1.0' }, 'ok (1.0)', [({ sampling }) => sampling.topK, 1]],
  [{ top_k: 1.5 }, '400 param body.top_k', invalid('top_k')],
  [{ top_p: 0 }, '400 param top_p', invalid('top_p')],
  [{ min_p: 1.5 }, '400', invalid('min_p')],
  [{ repetition_penalty: 0 }, '400', invalid('repetition_penalty')],
  [{ presence_penalty: 2.5 }, '400', invalid('presence_penalty')],

  [{ logit_bias: { abc: 1 } }, '400 param logit_bias', invalid('logit_bias')],
  [{ logit_bias: { '5': 500 } }, 'ok (=100)', [({ sampling }) => sampling.logitBias, [[5, 500]]]],
  [{ logit_bias: { '5': null } }, '400', invalid('logit_bias.5')],

  [{ top_logprobs: 3 }, '400', conflict('top_logprobs')],
  [{ top_logprobs: null, logprobs: true }, 'ok (0)', [({ logprobs }) => logprobs, 0]],
  [{ top_logprobs: '3', logprobs: true }, '400', invalid('top_logprobs')],
  [{ logprobs: 1 }, 'ok', [({ logprobs }) => logprobs, 0]],
  [{ logprobs: 2 }, '400', invalid('logprobs')],
  [{ prompt_logprobs: 1, stream: true }, '400', conflict('prompt_logprobs')],
  [{ prompt_logprobs: 0, stream: true }, 'ok', [({ promptLogprobs }) => promptLogprobs, null]],
  [{ prompt_logprobs: -2 }, '400', invalid('prompt_logprobs')],
  [{ prompt_logprobs: true }, 'ok (1)', [({ promptLogprobs }) => promptLogprobs, 1]],

  [{ stop: '' }, '400', invalid('stop')],
  [{ stop: ['a', 'b', 'c', 'd', 'e'] }, '400', invalid('stop')],
  [{ stop: null }, 'ok', [({ stop }) => stop, []]],
  [{ stop: ['a', 1] }, '400', invalid('stop.1')],
  [{ seed: -1 }, 'ok', [({ sampling }) => sampling.seed, null]],
  [{ seed: '9223372036854775808' }, '400 param body.seed', invalid('seed')],
  [{ stream_options: { include_usage: true } }, '400', conflict('stream_options')],
  [{ stream_options: {} }, 'ok', WITHOUT_EFFECT],
  [{ continue_final_message: true, add_generation_prompt: true }, '400', conflict('continue_final_message')],

  [{ response_format: { type: 'json_schema' } }, '400', conflict('response_format')],
  [{ response_format: { type: 'json_schema', json_schema: { schema: AB } } }, 'without name 400', invalid('response_format.json_schema.name')],
  [{ response_format: { type: 'json_schema', json_schema: { name: 'x' } } }, 'without schema 400', conflict('response_format')],
  [{ response_format: { type: 'foo' } }, '400', invalid('response_format.type')],
  [{ response_format: { type: 'json_object', extra: 1 } }, 'extra key ok', [({ constraint }) => constraint, { kind: 'json_object', whitespace: { kind: 'capped' } }]],

  [{ structured_outputs: {} }, '400', conflict('structured_outputs')],
  [{ structured_outputs: { json: '{}', regex: 'a' } }, '400', conflict('structured_outputs')],
  [{ structured_outputs: { json: '{}', grammar: 'root ::= "a"' } }, '400', conflict('structured_outputs')],
  [{ structured_outputs: { regex: 'a', _backend: 'x' } }, 'ok, ignored', [({ constraint }) => constraint, { kind: 'regex', pattern: 'a' }]],
  [{ structured_outputs: { regex: 'a', bogus: 1 } }, 'ok', [({ constraint }) => constraint, { kind: 'regex', pattern: 'a' }]],
  [{ structured_outputs: { regex: 'a' }, response_format: { type: 'json_object' } }, '400', conflict('structured_outputs')],
  [{ structured_outputs: { regex: 'a' }, response_format: { type: 'text' } }, 'ok', [({ constraint }) => constraint, { kind: 'regex', pattern: 'a' }]],
  [{ structured_outputs: { choice: 'abc' } }, '400', invalid('structured_outputs.choice')],
  [{ structured_outputs: { choice: [] } }, '400 late', conflict('structured_outputs')],
  [{ structured_outputs: { json_object: false } }, '400 late', conflict('structured_outputs')],

  [{ repetition_detection: { max_pattern_size: 3 } }, '400', conflict('repetition_detection')],
  [{ repetition_detection: { max_pattern_size: 3, min_count: 2 } }, 'ok', [({ repetitionDetection }) => repetitionDetection, { maxPatternSize: 3, minPatternSize: 0, minCount: 2 }]],
  [{ repetition_detection: {} }, 'ok (off)', WITHOUT_EFFECT],
  [{ repetition_detection: { max_pattern_size: 3, min_pattern_size: 4, min_count: 2 } }, 'min>max 400', conflict('repetition_detection')],

  [{ bad_words: [''] }, '400', invalid('bad_words.0')],
  [{ bad_words: null }, '400', invalid('bad_words')],
  [{ echo: null }, '400', invalid('echo')],
  [{ min_tokens: null }, '400', invalid('min_tokens')],
  [{ priority: null }, '400', invalid('priority')],
  [{ request_id: null }, '400', invalid('request_id')],
  [{ length_penalty: null }, '400', invalid('length_penalty')],
  [{ cache_salt: '' }, '400', invalid('cache_salt')],
  [{ cache_salt: 'a/b' }, '400', invalid('cache_salt')],
  [{ vllm_xargs: { a: { b: 1 } } }, '400', invalid('vllm_xargs.a')],
  [{ documents: [{ a: 1 }] }, '400', invalid('documents.0.a')],
  [{ user: 5 }, '400', invalid('user')],
  [{ foo: 'bar' }, 'ok', WITHOUT_EFFECT],
  [{ guided_json: {} }, 'ok, unconstrained', WITHOUT_EFFECT],
  [{ guided_json: AB }, 'ok, unconstrained', conflict('guided_json')],

  [{ tools: [] }, '400, in older releases ok', WITHOUT_EFFECT],
  [{ tools: [], tool_choice: 'auto' }, '400, in older releases ok', WITHOUT_EFFECT],
  [{ tools: [], tool_choice: 'required' }, '400, in older releases ok', conflict('tool_choice')],
  [{ tool_choice: 'auto' }, '400', conflict('tool_choice')],
  [{ tool_choice: 'none' }, 'ok', WITHOUT_EFFECT],
  [{ tools: T, tool_choice: 'foo' }, '400', invalid('tool_choice')],
  [{ tools: T, tool_choice: { type: 'function', function: { name: 'g' } } }, 'unknown function name 400', conflict('tool_choice.function.name')],
  [{ tools: T, tool_choice: { type: 'function' } }, '400 param tool_choice.function', invalid('tool_choice.function')],

  [messages({ role: 'critic', content: 'x' }), 'unknown role ok', [templateMessage, { role: 'critic', content: 'x' }]],
  [messages({ content: 'x' }), 'no role 400', invalid('messages.0.role')],
  [messages({ role: 'user', content: null }), 'user content null 400', invalid('messages.0.content')],
  [messages({ role: 'user' }), 'user without content ok', [templateMessage, { role: 'user' }]],
  [messages({ role: 'assistant', content: null }), 'ok', [templateMessage, { role: 'assistant', content: null }]],
  [messages({ role: 'function', content: null, name: 'f' }), 'ok', [templateMessage, { role: 'function', content: null, name: 'f' }]],
  [messages({ role: 'tool', content: 'x' }), 'tool without tool_call_id ok', [templateMessage, { role: 'tool', content: 'x' }]],
  [messages({ role: 'user', content: 5 }), '400', invalid('messages.0.content')],
  [messages({ role: 'assistant', tool_calls: [call({})] }), 'object arguments 400', invalid('messages.0.tool_calls.0.function.arguments')],
];

/** A request without its id, for comparisons. */
function essence({ requestId: _id, ...request }: InferenceRequest): unknown {
  return request;
}

describe('vectors', () => {
  test.each(VECTORS)('%j: vLLM %s', async (fields, _reference, ours) => {
    const response = await server.chat({ max_tokens: 20, ...fields });
    if (isRefusal(ours)) {
      const { detail, error } = response.json<ErrorBody>();
      expect({ status: response.statusCode, param: error.param }).toEqual(ours);
      // The same form as FastAPI's failed checks.
      expect((detail as ValidationItem[]).map(({ loc }) => loc.join('.'))).toEqual([`body.${ours.param}`]);
      expect(error.message).toContain(String(ours.param).split('.')[0]);
      return;
    }
    expect(response.statusCode, response.body).toBe(200);
    const [read, expected] = ours;
    const { lastRequest } = server.inference;
    if (ours === WITHOUT_EFFECT) {
      await server.chat({ max_tokens: 20 });
      expect(essence(lastRequest)).toEqual(essence(server.inference.lastRequest));
    } else expect(read(lastRequest)).toEqual(expected);
  });

  test.each([
    ['{}', '400 "Bad Request"', invalid('messages')],
    ['null', '400 "Bad Request"', invalid('body')],
    ['', '400 "Bad Request"', invalid('body')],
    ['[]', '400 param body', invalid('body')],
    ['{"messages": [], "seed": 9223372036854775808}', '400 param body.seed', invalid('seed')],
  ])('the body %j: vLLM %s', async (body, _reference, ours) => {
    const response = await server.request('POST', '/v1/chat/completions', body);
    const { detail, error } = response.json<ErrorBody>();
    expect({ status: response.statusCode, param: error.param }).toEqual(ours);
    expect(detail).toEqual(expect.any(Array));
  });
});

describe('routes', () => {
  test('another method is 405 and an unknown path 404: vLLM {"detail"}, here both shapes', async () => {
    const wrongMethod = await server.request('GET', '/v1/chat/completions');
    expect([wrongMethod.statusCode, wrongMethod.headers['allow']]).toEqual([405, 'POST']);
    expect(wrongMethod.json()).toMatchObject({
      detail: 'Method Not Allowed',
      error: { message: 'Method Not Allowed' },
    });
    const unknown = await server.request('POST', '/v1/nope', {});
    expect(unknown.statusCode).toBe(404);
    expect(unknown.json()).toMatchObject({ detail: 'Not Found', error: { message: 'Not Found' } });
  });

  test('a trailing slash: vLLM 307, here it is served', async () => {
    const body = { messages: [{ role: 'user', content: 'hello' }] };
    expect((await server.request('POST', '/v1/chat/completions/', body)).statusCode).toBe(200);
    expect((await server.request('GET', '/v1/models/')).statusCode).toBe(200);
  });
});

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ChatCompletion, ErrorBody } from '@trainyard/protocol';

import { failure, replies, type Script } from '../../../testing/scripted-inference.ts';
import { TestServer } from '../../../testing/test-server.ts';

const HI: Script = (request) => replies(request, [{ ids: [5, 6], text: 'hi' }]);

let server: TestServer;
let modelId: string;
beforeAll(async () => {
  server = await TestServer.start();
  modelId = await server.makeModel('agent');
  await server.addCheckpoint(modelId, 'a');
});
beforeEach(() => {
  server.inference.script = HI;
});
afterAll(() => server.close());

const TOOL = { type: 'function', function: { name: 'f' } };

describe('accepted requests', () => {
  const vectors: [Record<string, unknown>, (request: TestServer['inference']['lastRequest']) => unknown, unknown][] = [
    [{ temperature: '0.5' }, (r) => r.sampling.temperature, 0.5],
    [{ temperature: 0.001 }, (r) => r.sampling.temperature, 0.01],
    [{ temperature: 0 }, (r) => r.sampling.temperature, 0],
    [{ n: '2' }, (r) => r.n, 2],
    [{ n: null }, (r) => r.n, 1],
    [{ n: true }, (r) => r.n, 1],
    [{ top_k: -1 }, (r) => r.sampling.topK, 0],
    [{ top_k: 1.0 }, (r) => r.sampling.topK, 1],
    [{ logit_bias: { '5': 500 } }, (r) => r.sampling.logitBias, [[5, 500]]],
    // Two spellings of one id: the last counts, as with `int(key)` in vLLM.
    [
      { logit_bias: { '5': 4, '6': 1, '05': -6 } },
      (r) => r.sampling.logitBias,
      [
        [5, -6],
        [6, 1],
      ],
    ],
    [{ logit_bias: { '-0': 2, '0': 3 } }, (r) => r.sampling.logitBias, [[0, 2]]],
    [{ logit_bias: { '5': '1.5' } }, (r) => r.sampling.logitBias, [[5, 1.5]]],
    [{ top_logprobs: null, logprobs: true }, (r) => r.logprobs, 0],
    [{ top_logprobs: 3, logprobs: true }, (r) => r.logprobs, 3],
    [{ logprob_token_ids: [7, 900], logprobs: true }, (r) => r.logprobTokenIds, [7, 900]],
    [{ logprob_token_ids: null }, (r) => r.logprobTokenIds, null],
    [{ thinking_token_budget: '20' }, (r) => r.thinkingTokenBudget, 20],
    [{ thinking_token_budget: 0 }, (r) => r.thinkingTokenBudget, 0],
    [{ thinking_token_budget: -1 }, (r) => r.thinkingTokenBudget, null],
    [{}, (r) => r.thinkingTokenBudget, null],
    [{ logprobs: 1 }, (r) => r.logprobs, 0],
    [{ logprobs: 'yes' }, (r) => r.logprobs, 0],
    [{}, (r) => r.logprobs, null],
    [{ stop: null }, (r) => r.stop, []],
    [{ stop: 'a' }, (r) => r.stop, ['a']],
    [{ stop: ['a', 'b', 'c', 'd'] }, (r) => r.stop, ['a', 'b', 'c', 'd']],
    [{ seed: -1 }, (r) => r.sampling.seed, null],
    [{ seed: 7 }, (r) => r.sampling.seed, 7n],
    [{ seed: '9223372036854775807' }, (r) => r.sampling.seed, 9223372036854775807n],
    [{ stream_options: {} }, (r) => r.n, 1],
    [{ max_tokens: 5, max_completion_tokens: 9 }, (r) => r.maxTokens, 9],
    [{ max_tokens: '5' }, (r) => r.maxTokens, 5],
    [{ stop_token_ids: [7, 7, 8] }, (r) => r.stopTokenIds, [7, 8]],
    [
      { ignore_eos: 'true', min_tokens: 2, include_stop_str_in_output: true, priority: -3 },
      (r) => [r.ignoreEos, r.minTokens, r.includeStopString, r.priority],
      [true, 2, true, -3],
    ],
    [{ cache_salt: 'tenant-1' }, (r) => r.cacheSalt, 'tenant-1'],
    [{ foo: 'bar', user: 'me' }, (r) => r.n, 1],
    [{ tools: [TOOL], tool_choice: 'none' }, (r) => r.prompt.kind === 'chat' && r.prompt.tools, [TOOL]],
    [{ tool_choice: 'none' }, (r) => r.prompt.kind === 'chat' && r.prompt.tools, null],
    [
      { chat_template_kwargs: { enable_thinking: true } },
      (r) => r.prompt.kind === 'chat' && r.prompt.templateVariables,
      { enable_thinking: true },
    ],
    [{ skip_special_tokens: false }, (r) => r.skipSpecialTokens, false],
    // Unimplemented fields with values without effect.
    [
      {
        response_format: { type: 'text' },
        bad_words: [],
        echo: false,
        length_penalty: 1,
        repetition_detection: {},
        parallel_tool_calls: true,
        vllm_xargs: {},
        guided_json: null,
      },
      (r) => r.n,
      1,
    ],
    [
      {
        structured_outputs: null,
        prompt_logprobs: null,
        reasoning_effort: null,
        add_generation_prompt: true,
        include_reasoning: true,
      },
      (r) => r.n,
      1,
    ],
  ];
  test.each(vectors)('%j', async (fields, read, expected) => {
    const response = await server.chat(fields);
    expect(response.statusCode).toBe(200);
    expect(read(server.inference.lastRequest)).toEqual(expected);
  });

  test.each([
    [{ role: 'critic', content: 'x' }],
    [{ role: 'user' }],
    [{ role: 'assistant', content: null }],
    [{ role: 'function', content: null, name: 'f' }],
    [{ role: 'tool', content: 'x' }],
    [{ role: 'user', content: ['a', { type: 'text', text: 'b' }] }],
    [{ role: 'assistant', tool_calls: [{ id: '1', type: 'function', function: { name: 'f', arguments: '{}' } }] }],
    [{ role: 'assistant', content: 'x', tool_calls: [], reasoning_content: 'because' }],
  ])('the message %j goes to the template as it is', async (message) => {
    const response = await server.chat({ messages: [message] });
    expect(response.statusCode).toBe(200);
    const { prompt } = server.inference.lastRequest;
    expect(prompt.kind === 'chat' && prompt.messages).toEqual([message]);
  });

  test('an empty list of messages is the template’s to judge', async () => {
    expect((await server.chat({ messages: [] })).statusCode).toBe(200);
  });

  test('a seed keeps all of its 64 bits', async () => {
    const response = await server.request(
      'POST',
      '/v1/chat/completions',
      '{"seed": 9223372036854775807, "messages": [{"role": "user", "seed": 9223372036854775806}]}',
    );
    expect(response.statusCode).toBe(200);
    expect(server.inference.lastRequest.sampling.seed).toBe(9223372036854775807n);
  });
});

describe('refused requests', () => {
  const single: [Record<string, unknown>, string][] = [
    [{ temperature: 3 }, 'temperature'],
    [{ temperature: -0.1 }, 'temperature'],
    [{ temperature: 'warm' }, 'temperature'],
    [{ n: 0 }, 'n'],
    [{ n: 16_385 }, 'n'],
    [{ top_k: -2 }, 'top_k'],
    [{ top_k: 1.5 }, 'top_k'],
    [{ top_p: 0 }, 'top_p'],
    [{ min_p: 1.5 }, 'min_p'],
    [{ repetition_penalty: 0 }, 'repetition_penalty'],
    [{ presence_penalty: 2.5 }, 'presence_penalty'],
    [{ frequency_penalty: -2.5 }, 'frequency_penalty'],
    [{ logit_bias: { abc: 1 } }, 'logit_bias'],
    [{ logit_bias: { '5': null } }, 'logit_bias.5'],
    [{ top_logprobs: '3', logprobs: true }, 'top_logprobs'],
    [{ logprobs: 2 }, 'logprobs'],
    [{ prompt_logprobs: -2 }, 'prompt_logprobs'],
    [{ stop: '' }, 'stop'],
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop'],
    [{ stop: ['a', 1] }, 'stop.1'],
    [{ seed: 1.5 }, 'seed'],
    [{ seed: '9223372036854775808' }, 'seed'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ bad_words: [''] }, 'bad_words.0'],
    [{ bad_words: null }, 'bad_words'],
    [{ echo: null }, 'echo'],
    [{ min_tokens: null }, 'min_tokens'],
    [{ priority: null }, 'priority'],
    [{ request_id: null }, 'request_id'],
    [{ length_penalty: null }, 'length_penalty'],
    [{ cache_salt: '' }, 'cache_salt'],
    [{ cache_salt: 'a/b' }, 'cache_salt'],
    [{ vllm_xargs: { a: { b: 1 } } }, 'vllm_xargs.a'],
    [{ documents: [{ a: 1 }] }, 'documents.0.a'],
    [{ user: 5 }, 'user'],
    [{ response_format: { type: 'foo' } }, 'response_format.type'],
    [{ structured_outputs: { choice: 'abc' } }, 'structured_outputs.choice'],
    [{ structured_outputs: 'json' }, 'structured_outputs'],
    [{ stop_token_ids: [-1] }, 'stop_token_ids.0'],
    [{ messages: 'hello' }, 'messages'],
    [{ messages: null }, 'messages'],
    [{ messages: ['hello'] }, 'messages.0'],
    [{ messages: [{ content: 'x' }] }, 'messages.0.role'],
    [{ messages: [{ role: 'user', content: null }] }, 'messages.0.content'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages.0.content'],
    [
      {
        messages: [
          { role: 'assistant', tool_calls: [{ id: '1', type: 'function', function: { name: 'f', arguments: {} } }] },
        ],
      },
      'messages.0.tool_calls.0.function.arguments',
    ],
    [{ repetition_detection: { max_pattern_size: -1 } }, 'repetition_detection.max_pattern_size'],
  ];
  test.each(single)('%j fails on its own: 400 in both shapes', async (fields, param) => {
    const response = await server.chat(fields);
    expect(response.statusCode).toBe(400);
    const { detail, error } = response.json<ErrorBody>();
    expect(error).toMatchObject({ code: 'request.invalid', type: 'invalid_request_error', param });
    expect(detail).toHaveLength(1);
    expect(detail[0]).toMatchObject({ msg: expect.any(String), type: expect.any(String) });
    expect((detail[0] as { loc: unknown[] }).loc.join('.')).toBe(`body.${param}`);
  });

  test('a seed of 65 bits is refused as a number too', async () => {
    const response = await server.request(
      'POST',
      '/v1/chat/completions',
      '{"messages": [], "seed": 9223372036854775808}',
    );
    expect([response.statusCode, response.json<ErrorBody>().error.param]).toEqual([400, 'seed']);
  });

  test('nesting that would exhaust a stack is refused, and the service keeps running', async () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    for (const [field, body] of [
      ['messages', `{"messages": [{"role": "user", "content": "x", "extra": ${deep}}]}`],
      ['chat_template_kwargs', `{"messages": [], "chat_template_kwargs": {"a": ${deep}}}`],
    ] as const) {
      const response = await server.request('POST', '/v1/chat/completions', body);
      expect([response.statusCode, response.json<ErrorBody>().error.param]).toEqual([400, field]);
    }
    expect((await server.chat({})).statusCode).toBe(200);
  });

  test('a message names the limit and the value', async () => {
    const { error } = (await server.chat({ top_p: 1.4 })).json<ErrorBody>();
    expect(error.message).toBe('`top_p`: Input should be less than or equal to 1, got 1.4');
  });

  test('several faults are listed together', async () => {
    const { detail, error } = (await server.chat({ top_p: 2, n: 0, messages: [{}] })).json<ErrorBody>();
    expect(detail).toHaveLength(3);
    expect(error.message).toMatch(/\(and 2 more\)$/);
  });

  test('every bad key of a map is in the message', async () => {
    const { error } = (await server.chat({ logit_bias: { bad1: 50, bad2: 20 } })).json<ErrorBody>();
    expect(error.message).toContain('Key "bad1"');
    expect(error.message).toContain('Key "bad2"');
    expect(error.param).toBe('logit_bias');
  });

  const conflicts: [Record<string, unknown>, string | null, string][] = [
    [{ temperature: 0, n: 2 }, 'n', 'request.conflict'],
    [{ top_logprobs: 3 }, 'top_logprobs', 'request.conflict'],
    [{ logprob_token_ids: [7] }, 'logprob_token_ids', 'request.conflict'],
    [{ logprob_token_ids: [1000], logprobs: true }, 'logprob_token_ids', 'request.conflict'],
    [{ logprob_token_ids: [7], logprobs: true, use_beam_search: true }, 'logprob_token_ids', 'request.conflict'],
    [{ thinking_token_budget: 5, use_beam_search: true }, 'thinking_token_budget', 'request.conflict'],
    [{ top_logprobs: 3, logprobs: false, model: 'agent' }, 'top_logprobs', 'request.conflict'],
    [{ top_logprobs: -1, logprobs: true }, 'top_logprobs', 'request.conflict'],
    [{ top_logprobs: 21, logprobs: true }, 'top_logprobs', 'request.conflict'],
    [{ prompt_logprobs: 21 }, 'prompt_logprobs', 'request.conflict'],
    [{ prompt_logprobs: -1, stream: true }, 'prompt_logprobs', 'request.conflict'],
    [{ stream_options: { include_usage: true } }, 'stream_options', 'request.conflict'],
    [{ max_tokens: 3, min_tokens: 4 }, 'min_tokens', 'request.conflict'],
    [{ max_completion_tokens: 513 }, 'max_completion_tokens', 'request.conflict'],
    [{ logit_bias: { '1000': 1 } }, 'logit_bias', 'request.conflict'],
    [{ logit_bias: { '-1': 1 } }, 'logit_bias', 'request.conflict'],
    [{ stop_token_ids: [1000] }, 'stop_token_ids', 'request.conflict'],
    [{ tool_choice: 'auto' }, 'tool_choice', 'request.conflict'],
    [
      { tools: [TOOL], tool_choice: { type: 'function', function: { name: 'g' } } },
      'tool_choice.function.name',
      'request.conflict',
    ],
    [{ chat_template_kwargs: { chat_template: 'x' } }, 'chat_template_kwargs', 'request.conflict'],
    [{ structured_outputs: {} }, 'structured_outputs', 'request.conflict'],
    [{ structured_outputs: { json: '{}', regex: 'a' } }, 'structured_outputs', 'request.conflict'],
    [
      { structured_outputs: { regex: 'a' }, response_format: { type: 'json_object' } },
      'structured_outputs',
      'request.conflict',
    ],
    [{ structured_outputs: { choice: [] } }, 'structured_outputs', 'request.conflict'],
    [{ structured_outputs: { json_object: false } }, 'structured_outputs', 'request.conflict'],
    [
      { structured_outputs: { json: '{}', disable_any_whitespace: true, whitespace_pattern: ' ' } },
      'structured_outputs',
      'request.conflict',
    ],
    [
      {
        tools: [TOOL],
        tool_choice: { type: 'function', function: { name: 'f' } },
        structured_outputs: { regex: 'a' },
      },
      'structured_outputs',
      'request.conflict',
    ],
    [{ response_format: { type: 'json_schema' } }, 'response_format', 'request.conflict'],
    [{ response_format: { type: 'json_schema', json_schema: { name: 'x' } } }, 'response_format', 'request.conflict'],
    [{ prompt_logprobs: 1, stream: true }, 'prompt_logprobs', 'request.conflict'],
    [{ prompt_logprobs: -1 }, 'prompt_logprobs', 'request.conflict'],
    [{ continue_final_message: true }, 'continue_final_message', 'request.conflict'],
    [{ continue_final_message: true, add_generation_prompt: true }, 'continue_final_message', 'request.conflict'],
    [
      { continue_final_message: true, add_generation_prompt: false, messages: [] },
      'continue_final_message',
      'request.conflict',
    ],
    [{ repetition_detection: { max_pattern_size: 3 } }, 'repetition_detection', 'request.conflict'],
    [
      { repetition_detection: { max_pattern_size: 3, min_pattern_size: 4, min_count: 2 } },
      'repetition_detection',
      'request.conflict',
    ],
    [{ vllm_xargs: { a: 1 }, engine_xargs: { a: 1 } }, 'engine_xargs', 'request.conflict'],
    [{ guided_json: { type: 'object' } }, 'guided_json', 'request.unsupported'],
    [{ guided_anything: 1 }, 'guided_anything', 'request.unsupported'],
    [{ functions: [{ name: 'f' }] }, 'functions', 'request.unsupported'],
    [{ modalities: ['audio'] }, 'modalities', 'request.unsupported'],
    [{ kv_transfer_params: { prompt_token_ids: [1] } }, 'kv_transfer_params.prompt_token_ids', 'request.unsupported'],
  ];
  test.each(conflicts)('%j is 400 naming %s', async (fields, param, code) => {
    const numBefore = server.inference.requests.length;
    const response = await server.chat(fields);
    expect(response.statusCode).toBe(400);
    const { detail, error } = response.json<ErrorBody>();
    expect(error).toMatchObject({ code, param });
    expect(detail).toEqual([
      { loc: ['body', ...(param === null ? [] : param.split('.'))], msg: error.message, type: 'value_error' },
    ]);
    expect(server.inference.requests).toHaveLength(numBefore);
  });

  test.each([
    [
      'messages',
      Array.from({ length: 513 }, () => ({ role: 'user', content: 'a' })),
      /^This model's maximum context length is 512 tokens\. .* 513 messages/,
    ],
    [
      'characters',
      [{ role: 'user', content: 'a'.repeat(512 * 256 + 1) }],
      /^This model's maximum context length is 512 tokens\. .* 131073 characters, but at most 131072/,
    ],
  ])('more %s than can fit are refused before they travel to the engine', async (_what, messages, message) => {
    const numBefore = server.inference.requests.length;
    const response = await server.chat({ messages });
    expect(response.statusCode).toBe(400);
    expect(response.json<ErrorBody>().error).toMatchObject({
      code: 'context_length_exceeded',
      param: 'input_tokens',
      message: expect.stringMatching(message),
    });
    expect(server.inference.requests).toHaveLength(numBefore);
  });

  test.each([
    [{ structured_outputs: { regex: '(' } }, 'constraint', 'structured_outputs'],
    [{ response_format: { type: 'json_object' } }, 'constraint', 'response_format'],
    [{ tools: [TOOL], tool_choice: 'required' }, 'constraint', 'tools'],
    [{ tools: [TOOL] }, 'reply.toolChoice', 'tool_choice'],
    [{ chat_template: '{%' }, 'chatTemplate', 'chat_template'],
    [{ use_beam_search: true, length_penalty: 2 }, 'beamSearch', 'length_penalty'],
  ])('an engine error about %j names the field as it was sent: %s is %s', async (fields, param, name) => {
    server.inference.script = () => [failure('engine.invalid_request', 'refused', param)];
    const { error } = (await server.chat(fields)).json<ErrorBody>();
    expect(error).toMatchObject({ code: 'engine.invalid_request', param: name });
  });

  test('unknown models are 404', async () => {
    const { statusCode, body } = await server.chat({ model: 'nobody' });
    expect(statusCode).toBe(404);
    expect(JSON.parse(body)).toMatchObject({
      detail: 'The model `nobody` does not exist',
      error: { param: 'model', code: 'request.unknown_model' },
    });
  });

  test('a model that is deleted while requests for it are on their way is 404 in every form', async () => {
    const unreadable = failure('engine.adapter_unreadable', 'adapter cannot be loaded: ENOENT', null);
    server.inference.script = () => [unreadable];
    const kept = await server.chat({ model: 'agent' });
    expect([kept.statusCode, kept.json<ErrorBody>().error.code]).toEqual([500, 'engine.adapter_unreadable']);

    const { id: entityId } = await server.store.keys.ensureEntity('acme');
    const prompts = {
      '/v1/chat/completions': { messages: [{ role: 'user', content: 'hello' }] },
      '/v1/completions': { prompt: 'hello' },
      '/v1/messages': { messages: [{ role: 'user', content: 'hello' }], max_tokens: 1 },
      '/v1/responses': { input: 'hello' },
      '/inference/v1/generate': { token_ids: [5], sampling_params: { max_tokens: 1 } },
    };
    const versions = {
      checkpoint: async (id: string) => {
        const ofModel = await server.makeModel(id);
        await server.addCheckpoint(ofModel, 'd');
        return { model: `acme/demo/${id}:step1`, place: `/v1/preview/models/${ofModel}` };
      },
      adapter: async (id: string) => {
        const keys = { configKey: `uploads/${id}/config`, weightsKey: `uploads/${id}/weights` };
        await server.store.adapters.create({ id, entityId, baseModel: 'tiny/base', ...keys });
        const directoryKey = `adapters/${id}`;
        await server.blobs.commitDirectory(await server.blobs.stageDirectory(), directoryKey);
        const lora = { rank: 8, alpha: 16, targets: ['q'] } as never;
        await server.importAdapter(id, { directoryKey, digest: 'd'.repeat(64), lora });
        return { model: `adapter:${id}`, place: `/v1/preview/adapters/${id}` };
      },
    };
    for (const [url, prompt] of Object.entries(prompts))
      for (const make of Object.values(versions))
        for (const stream of [false, true]) {
          const { model, place } = await make(crypto.randomUUID());
          server.inference.script = async function* () {
            expect((await server.request('DELETE', place)).statusCode).toBe(200);
            yield unreadable;
          };
          const response = await server.request('POST', url, { ...prompt, model, stream });
          expect(response.statusCode, `${url} ${model}`).toBe(404);
          expect(response.body).toContain(`The model \`${model}\` was deleted`);
        }
  });

  test.each([
    ['prompt', 'messages'],
    ['sampling.logitBias', 'logit_bias'],
    ['stopTokenIds', 'stop_token_ids'],
    [null, null],
  ])('the engine’s field %s is reported as %s', async (param, field) => {
    server.inference.script = () => [failure('engine.invalid_request', 'the reason', param)];
    expect((await server.chat()).json<ErrorBody>().error.param).toBe(field);
  });

  test.each([
    ['context_length_exceeded', 400, 'false', 'the reason'],
    ['engine.overloaded', 429, 'true', 'the reason'],
    ['engine.template_failed', 400, 'false', 'the reason'],
    ['engine.host_lost', 503, 'true', 'the reason'],
    ['engine.internal', 500, 'false', 'The service failed (engine.internal); see the log of the service'],
  ] as const)('an engine error %s is %d, streaming or not', async (code, status, retry, message) => {
    server.inference.script = () => [failure(code, 'the reason', 'messages')];
    for (const stream of [false, true]) {
      const response = await server.chat({ stream });
      expect(response.statusCode).toBe(status);
      expect(response.headers['x-should-retry']).toBe(retry);
      expect(response.json<ErrorBody>().error).toMatchObject({
        code,
        param: code === 'context_length_exceeded' ? 'input_tokens' : 'messages',
        message: expect.stringMatching(new RegExp(`${RegExp.escape(message)}( \\(${code}\\))?$`)),
      });
    }
  });
});

describe('the answer', () => {
  test('of the base model has every key, with null for unknown values', async () => {
    const response = await server.chat({ request_id: 'abc' });
    expect(response.headers['content-type']).toContain('application/json');
    const answer = response.json<ChatCompletion>();
    expect(answer).toEqual({
      id: 'chatcmpl-abc',
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'tiny/base',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'hi',
            refusal: null,
            annotations: null,
            audio: null,
            function_call: null,
            reasoning: null,
          },
          logprobs: null,
          finish_reason: 'stop',
          stop_reason: null,
          token_ids: null,
          routed_experts: null,
        },
      ],
      service_tier: null,
      system_fingerprint: 'trainyard-base',
      usage: {
        prompt_tokens: 3,
        total_tokens: 6,
        completion_tokens: 3,
        prompt_tokens_details: { cached_tokens: 2 },
        completion_tokens_details: null,
      },
      prompt_logprobs: null,
      prompt_token_ids: null,
      prompt_text: null,
      kv_transfer_params: null,
      ec_transfer_params: null,
      metrics: null,
    });
    expect(Math.abs(answer.created - Date.now() / 1000)).toBeLessThan(5);
  });

  test('the X-Request-Id header wins over request_id', async () => {
    const answer = (await server.chat({ request_id: 'abc' }, { 'x-request-id': 'header-1' })).json<ChatCompletion>();
    expect(answer.id).toBe('chatcmpl-header-1');
  });

  test('of a trained model has the fields for training without a request for them, and names the weights', async () => {
    const answer = (await server.chat({ model: 'agent', n: 2 })).json<ChatCompletion>();
    expect(answer.model).toBe('acme/demo/agent:step1');
    expect(answer.system_fingerprint).toBe('trainyard-aaaaaaaa');
    expect(answer.choices.map((choice) => choice.index)).toEqual([0, 1]);
    for (const choice of answer.choices) {
      expect(choice.token_ids).toEqual([5, 6, 2]);
      expect(choice.logprobs?.content.map((entry) => entry.token)).toEqual(['token_id:5', 'token_id:6', 'token_id:2']);
      expect(choice.logprobs?.content.map((entry) => entry.logprob)).toEqual([-0.5, -0.6, -0.2]);
      expect(choice.logprobs?.content[0]).toEqual({
        token: 'token_id:5',
        logprob: -0.5,
        bytes: [60, 53, 62],
        top_logprobs: [],
      });
    }
    expect(answer.usage.completion_tokens).toBe(6);
    expect(answer.prompt_token_ids).toBeNull();
    const { adapter } = server.inference.lastRequest;
    expect(adapter?.digest).toBe('a'.repeat(64));
    expect(adapter?.path).toMatch(/\/adapter\.gguf$/);
  });

  test('step 0 of a trained model is the base with the same defaults', async () => {
    const answer = (await server.chat({ model: 'agent:step0' })).json<ChatCompletion>();
    expect([answer.model, answer.system_fingerprint]).toEqual(['acme/demo/agent:step0', 'trainyard-base']);
    expect(answer.choices[0]?.logprobs?.content).toHaveLength(3);
    expect(server.inference.lastRequest.adapter).toBeNull();
  });

  test('explicit wishes win over the defaults of a trained model', async () => {
    const plain = (
      await server.chat({ model: 'agent', logprobs: false, return_token_ids: false })
    ).json<ChatCompletion>();
    expect([plain.choices[0]?.logprobs, plain.choices[0]?.token_ids]).toEqual([null, null]);
    const texts = (await server.chat({ model: 'agent', return_tokens_as_token_ids: false })).json<ChatCompletion>();
    expect(texts.choices[0]?.logprobs?.content[0]?.token).toBe('<5>');
    const base = (
      await server.chat({ logprobs: true, top_logprobs: 2, return_token_ids: true })
    ).json<ChatCompletion>();
    expect(base.choices[0]?.logprobs?.content[0]?.top_logprobs).toHaveLength(2);
    expect(base.prompt_token_ids).toEqual([1, 2, 3]);
  });

  test('with top_logprobs has the sampled token first and N in all, or an empty list for 0', async () => {
    const entries = async (fields: Record<string, unknown>) => {
      const answer = (await server.chat({ logprobs: true, ...fields })).json<ChatCompletion>();
      return answer.choices[0]?.logprobs?.content.map((entry) => entry.top_logprobs.map((top) => top.token));
    };
    // The engine's row for token 5 is 5, 0, 1, 2 …
    expect(await entries({ top_logprobs: 3 })).toEqual([
      ['<5>', '<0>', '<1>'],
      ['<6>', '<0>', '<1>'],
      ['<2>', '<0>', '<1>'],
    ]);
    expect(await entries({})).toEqual([[], [], []]);
    const answer = (
      await server.chat({ logprobs: true, top_logprobs: 1, return_tokens_as_token_ids: true })
    ).json<ChatCompletion>();
    expect(answer.choices[0]?.logprobs?.content[0]).toEqual({
      token: 'token_id:5',
      logprob: -0.5,
      bytes: [60, 53, 62],
      top_logprobs: [{ token: 'token_id:5', logprob: -0.5, bytes: [...Buffer.from('token_id:5')] }],
    });
  });

  test.each([
    ['stop', null],
    ['stop', 'END'],
    ['stop', 7],
    ['length', null],
    ['repetition', 'repetition_detected'],
    ['abort', null],
  ] as const)('has the finish reason: %s, %j', async (finishReason, stopReason) => {
    server.inference.script = (request) =>
      replies(request, [], stopReason === null ? { finishReason } : { finishReason, stopReason });
    const [choice] = (await server.chat()).json<ChatCompletion>().choices;
    expect([choice?.finish_reason, choice?.stop_reason]).toEqual([finishReason, stopReason]);
    // No token adds text here: the content is empty, not null.
    expect(choice?.message.content).toBe('');
  });

  test('has its choices in order however they come and end', async () => {
    server.inference.script = function* () {
      const delta = { kind: 'delta', logprobs: null } as const;
      const finished = { kind: 'finished' as const, text: '', tokenIds: [2], logprobs: null, stopReason: null };
      yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
      yield { ...delta, index: 1, text: 'b', tokenIds: [9] };
      yield { ...finished, index: 1, finishReason: 'stop' };
      yield { ...delta, index: 0, text: 'a', tokenIds: [8, 8] };
      yield { ...finished, index: 0, finishReason: 'length' };
      yield { kind: 'completed', usage: { promptTokens: 1, completionTokens: 5, cachedTokens: 0 } };
    };
    const { choices } = (await server.chat({ n: 2, return_token_ids: true })).json<ChatCompletion>();
    expect(choices.map((choice) => [choice.index, choice.message.content, choice.token_ids])).toEqual([
      [0, 'a', [8, 8, 2]],
      [1, 'b', [9, 2]],
    ]);
    expect(choices.map((choice) => choice.finish_reason)).toEqual(['length', 'stop']);
  });

  test('a trailing slash is the same route', async () => {
    const response = await server.request('POST', '/v1/chat/completions/', { messages: [] });
    expect(response.statusCode).toBe(200);
  });
});

describe('usage', () => {
  test('is recorded with the project header, by version', async () => {
    await server.chat({ model: 'agent' }, { 'openai-project': 'acme/search' });
    await server.chat({ model: 'agent' }, { 'compat-project': 'acme/ads', 'openai-project': 'ignored' });
    await server.chat({ stream: true }, { 'openai-project': 'acme/search' });
    const totals = await server.store.usage.sum({});
    const of = (project: string, model: string) =>
      totals.find((total) => total.project === project && total.model === model);
    expect(of('acme/search', 'acme/demo/agent:step1')).toMatchObject({
      kind: 'chat',
      numRequests: 1,
      promptTokens: 3,
      completionTokens: 3,
    });
    expect(of('acme/ads', 'acme/demo/agent:step1')).toMatchObject({ numRequests: 1 });
    expect(of('acme/search', 'tiny/base')).toMatchObject({ numRequests: 1, promptTokens: 3, completionTokens: 3 });
  });
});

describe('Idempotency-Key', () => {
  test('same key and body is generated once', async () => {
    const numBefore = server.inference.requests.length;
    const first = await server.chat({ seed: 3 }, { 'idempotency-key': 'k1' });
    const second = await server.chat({ seed: 3 }, { 'idempotency-key': 'k1' });
    expect(second.body).toBe(first.body);
    expect(second.headers['idempotent-replayed']).toBe('true');
    expect(server.inference.requests).toHaveLength(numBefore + 1);
  });

  test('an order of keys that no object can keep is replayed byte for byte', async () => {
    const entry = (id: number, rank: number) => ({ id, rank, logprob: -rank, text: `<${id}>`, bytes: [] });
    server.inference.script = (request) =>
      replies(request, [], { promptLogprobs: [null, [entry(900, 3), entry(7, 1)], [entry(31, 1), entry(4, 2)]] });
    const first = await server.chat({}, { 'idempotency-key': 'k-order' });
    const second = await server.chat({}, { 'idempotency-key': 'k-order' });
    expect(first.statusCode).toBe(200);
    expect(first.body.match(/"(\d+)":/g)).toEqual(['"900":', '"7":', '"31":', '"4":']);
    expect([second.body, second.headers['idempotent-replayed']]).toEqual([first.body, 'true']);
    expect(second.headers['content-type']).toBe(first.headers['content-type']);
    // Without a key the same writer is used.
    const { body } = await server.chat({ request_id: 'x' });
    expect(body.match(/"(\d+)":/g)).toEqual(['"900":', '"7":', '"31":', '"4":']);
  });

  test('same key and another body is 422', async () => {
    await server.chat({ seed: 3 }, { 'idempotency-key': 'k2' });
    const other = await server.chat({ seed: 4 }, { 'idempotency-key': 'k2' });
    expect([other.statusCode, other.json<ErrorBody>().error.code]).toEqual([422, 'request.idempotency_mismatch']);
  });

  test('while the first is running a repeat is 409; a failure frees the key', async () => {
    const gate = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    server.inference.script = async function* (request) {
      arrived.resolve();
      await gate.promise;
      yield failure('engine.overloaded', `full for ${request.tenant}`);
    };
    const first = server.chat({}, { 'idempotency-key': 'k3' });
    await arrived.promise;
    const second = await server.chat({}, { 'idempotency-key': 'k3' });
    expect([second.statusCode, second.headers['retry-after']]).toEqual([409, '1']);
    gate.resolve();
    expect((await first).statusCode).toBe(429);
    server.inference.script = HI;
    expect((await server.chat({}, { 'idempotency-key': 'k3' })).statusCode).toBe(200);
  });

  test('keys of two API keys do not meet', async () => {
    const other = await server.makeKey('acme', ['inference']);
    await server.chat({ seed: 1 }, { 'idempotency-key': 'k4' });
    const response = await server.chat({ seed: 2 }, { 'idempotency-key': 'k4', authorization: `Bearer ${other}` });
    expect(response.statusCode).toBe(200);
  });
});

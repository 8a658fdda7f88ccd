/** Reference §1.0: parsing of each field. */
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open({ template: 'tools' });
  service.setReply('hi');
});
afterAll(() => service.close());

/** The engine's request, without its id. */
async function asked(fields: Record<string, unknown>): Promise<unknown> {
  await service.answer({ max_tokens: 4, ...fields });
  const { requestId: _id, ...request } = service.inference.lastRequest;
  return request;
}

test('unknown keys are accepted at every level, and change nothing', async () => {
  const known = {
    messages: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }],
    tools: [{ type: 'function', function: { name: 'f' } }],
    response_format: { type: 'text' },
    structured_outputs: { regex: 'a+' },
    max_tokens: 2,
    seed: 1,
  };
  const x = { unknown: { deep: [1] } };
  const extended = {
    ...known,
    ...x,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'hello', ...x }], ...x }],
    tools: [{ type: 'function', function: { name: 'f', ...x }, ...x }],
    response_format: { type: 'text', ...x },
    structured_outputs: { regex: 'a+', ...x },
  };
  expect(await service.content(extended)).toBe(await service.content(known));
  expect(service.inference.lastRequest.constraint).toEqual({ kind: 'regex', pattern: 'a+' });
  const stream = await service.server.chat({ stream: true, stream_options: { include_usage: true, ...x } });
  expect(stream.statusCode).toBe(200);
});

test('NaN and Infinity are no JSON: vLLM reads them and then refuses their range', async () => {
  for (const literal of ['NaN', 'Infinity', '-Infinity']) {
    const response = await service.server.request(
      'POST',
      '/v1/chat/completions',
      `{"messages": [{"role": "user", "content": "x"}], "temperature": ${literal}}`,
    );
    expect([response.statusCode, response.json<{ error: { code: string } }>().error.code]).toEqual([
      400,
      'request.invalid_json',
    ]);
  }
});

test.each([
  ['"temperature": 1e999', ['body', 'temperature']],
  ['"logit_bias": {"5": -1e400}', ['body', 'logit_bias', '5']],
  ['"chat_template_kwargs": {"a": [1, 1e309]}', ['body', 'chat_template_kwargs', 'a', 1]],
  ['"structured_outputs": {"json": {"enum": [1e999]}}', ['body', 'structured_outputs', 'json', 'enum', 0]],
])('a number that overflows is reported with its position: %s', async (field, loc) => {
  const body = `{"messages": [{"role": "user", "content": "x"}], ${field}}`;
  const response = await service.server.request('POST', '/v1/chat/completions', body);
  expect(response.statusCode, response.body).toBe(400);
  expect(response.json()).toMatchObject({
    detail: [{ loc, type: 'finite_number' }],
    error: { code: 'request.invalid', param: loc.slice(1).join('.') },
  });
});

/** A chat with that many texts, names, lists and objects. */
const bodyOf = (numValues: number) => {
  const rest = 11;
  const left = Array.from({ length: numValues - rest }, (_, index) => `"${index}"`);
  return `{"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "metadata": [${left.join(',')}, 1, 2, 3, null]}`;
};

test('a body of more values than are read at once is refused with the limit and their number, and numbers count as none', async () => {
  const most = await service.server.request('POST', '/v1/chat/completions', bodyOf(300_000));
  expect(most.statusCode, most.body).toBe(200);
  for (const body of [bodyOf(300_001), `${bodyOf(300_001).slice(0, -2)}, "`]) {
    const response = await service.server.request('POST', '/v1/chat/completions', body);
    expect(response.statusCode, response.body).toBe(400);
    expect(response.json()).toMatchObject({
      detail: [{ loc: ['body'], type: 'too_long' }],
      error: { code: 'request.invalid', param: 'body', message: expect.stringContaining('at most 300000 strings') },
    });
  }
  const named = (count: number) =>
    `{"max_tokens": 1, "prompt": "x", "x": [${Array.from({ length: count - 3 }, (_, index) => `{"n${index}": 1}`).join(',')}]}`;
  expect((await service.server.request('POST', '/v1/completions', named(131_072))).statusCode).toBe(200);
  const response = await service.server.request('POST', '/v1/completions', named(131_073));
  expect([response.statusCode, response.body]).toEqual([
    400,
    expect.stringContaining(
      'at most 131072 member names that are not whole numbers, over all of its objects, got 131073',
    ),
  ]);
  const ids = `{"max_tokens": 1, "prompt": "x", "x": [${Array.from({ length: 400_000 }, (_, index) => index).join(',')}]}`;
  expect((await service.server.request('POST', '/v1/completions', ids)).statusCode).toBe(200);
});

test.each([
  ['9223372036854775807', 9223372036854775807n],
  ['-9223372036854775808', -9223372036854775808n],
  ['9223372036854776000', 9223372036854775807n],
  ['-9223372036854776000', -9223372036854775808n],
  ['9.223372036854776e18', 9223372036854775807n],
  ['1e18', 1_000_000_000_000_000_000n],
  ['"+09223372036854775807"', 9223372036854775807n],
])('the seed %s keeps its 64 bits', async (literal, seed) => {
  const body = `{"messages": [{"role": "user", "content": "x"}], "seed": ${literal}, "max_tokens": 1}`;
  expect((await service.server.request('POST', '/v1/chat/completions', body)).statusCode).toBe(200);
  expect(service.inference.lastRequest.sampling.seed).toBe(seed);
});

test('a byte order mark in front of a body costs a seed no digit', async () => {
  const body = '\ufeff{"messages": [{"role": "user", "content": "x"}], "seed": 1234567890123456789, "max_tokens": 1}';
  expect((await service.server.request('POST', '/v1/chat/completions', body)).statusCode).toBe(200);
  expect(service.inference.lastRequest.sampling.seed).toBe(1234567890123456789n);
});

describe('null', () => {
  const NULLABLE =
    'model frequency_penalty presence_penalty repetition_penalty logit_bias logprobs top_logprobs max_completion_tokens n response_format seed stop stream stream_options temperature top_p top_k min_p tools tool_choice reasoning_effort parallel_tool_calls user stop_token_ids truncate_prompt_tokens prompt_logprobs allowed_token_ids documents chat_template chat_template_kwargs mm_processor_kwargs structured_outputs return_tokens_as_token_ids return_token_ids cache_salt kv_transfer_params vllm_xargs repetition_detection skip_special_tokens'.split(
      ' ',
    );
  test.each(NULLABLE)('%s: null is its default', async (field) => {
    expect(await asked({ [field]: null })).toEqual(await asked({}));
  });
  test('max_tokens: null is the rest of the context', async () => {
    await service.answer({ max_tokens: null });
    expect(service.inference.lastRequest.maxTokens).toBeNull();
  });

  const NOT_NULLABLE =
    'include_reasoning use_beam_search length_penalty include_stop_str_in_output ignore_eos min_tokens spaces_between_special_tokens bad_words echo add_generation_prompt continue_final_message add_special_tokens priority request_id messages'.split(
      ' ',
    );
  test.each(NOT_NULLABLE)('%s: null is refused', async (field) => {
    expect(await service.refusal({ [field]: null })).toBe(`400 ${field}`);
  });
});

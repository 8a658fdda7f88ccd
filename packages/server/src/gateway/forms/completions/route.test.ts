import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Completion, CompletionChunk, ErrorBody } from '@trainyard/protocol';

import { failure, replies, type Script } from '../../../testing/scripted-inference.ts';
import { readEvents, TestServer } from '../../../testing/test-server.ts';

const HI: Script = (request) => replies(request, [{ ids: [5, 6], text: 'hi' }]);

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
  await server.addCheckpoint(await server.makeModel('agent'), 'a');
});
beforeEach(() => {
  server.inference.script = HI;
  server.inference.requests.length = 0;
});
afterAll(() => server.close());

const complete = (fields: Record<string, unknown>, headers: Record<string, string> = {}) =>
  server.request('POST', '/v1/completions', fields, headers);
const answerTo = async (fields: Record<string, unknown>) => {
  const response = await complete(fields);
  expect(response.statusCode, response.body).toBe(200);
  return response.json<Completion>();
};
const promptIds = () =>
  server.inference.requests.map(({ prompt }) => (prompt.kind === 'tokens' ? [...prompt.tokenIds] : null));

describe('prompts', () => {
  test('choices with more prompt entries than an answer can hold are refused before any runs', async () => {
    const prompt = Array.from({ length: 3 }, () => Array.from({ length: 400 }, () => 7));
    for (const told of ['echo', 'return_token_ids', 'return_prompt_text']) {
      const response = await complete({ prompt, n: 16_384, max_tokens: 1, [told]: true });
      expect(response.statusCode).toBe(400);
      const { error } = response.json<ErrorBody>();
      expect(error.param).toBe('n');
      expect(error.message).toContain('at most 16777216 tokens of prompts over all choices, got 19660800');
    }
    expect(server.inference.requests).toEqual([]);
  });

  test.each([
    ['a text', 'ab', [[1, 97, 98]]],
    [
      'texts',
      ['ab', 'c'],
      [
        [1, 97, 98],
        [1, 99],
      ],
    ],
    ['ids', [7, 8], [[7, 8]]],
    ['lists of ids', [[7], [8, 9]], [[7], [8, 9]]],
  ])('%s', async (_name, prompt, expected) => {
    await answerTo({ prompt });
    expect(promptIds()).toEqual(expected);
  });

  test('a text goes without the beginning of every text when asked; ids are never changed', async () => {
    await answerTo({ prompt: 'ab', add_special_tokens: false });
    await answerTo({ prompt: [7], add_special_tokens: true });
    expect(promptIds()).toEqual([[97, 98], [7]]);
  });

  test('choice i of prompt p has the index p × n + i, and the usage is the sum', async () => {
    server.inference.script = (request) => {
      const first = request.prompt.kind === 'tokens' ? request.prompt.tokenIds[0] : 0;
      return replies(request, [{ ids: [5], text: `<${first}>` }]);
    };
    const { choices, usage, id, object, model } = await answerTo({ prompt: [[7], [8], [9]], n: 2 });
    expect(choices.map(({ index, text }) => [index, text])).toEqual(
      ['<7>', '<7>', '<8>', '<8>', '<9>', '<9>'].map((text, index) => [index, text]),
    );
    expect(usage).toMatchObject({ prompt_tokens: 9, completion_tokens: 12, total_tokens: 21 });
    expect(usage.prompt_tokens_details).toEqual({ cached_tokens: 6 });
    expect([object, model]).toEqual(['text_completion', 'tiny/base']);
    expect(id).toMatch(/^cmpl-[0-9a-f]{32}$/);
  });

  test.each([
    ['nothing', {}, 400, 'request.invalid', 'prompt'],
    ['null', { prompt: null }, 400, 'request.invalid', 'prompt'],
    ['an empty list', { prompt: [] }, 400, 'request.invalid', 'prompt'],
    ['an empty list of ids', { prompt: [[1], []] }, 400, 'request.invalid', 'prompt'],
    ['a negative id', { prompt: [-1] }, 400, 'request.invalid', 'prompt.0'],
    ['a mix of texts and ids', { prompt: ['a', 1] }, 400, 'request.invalid', 'prompt'],
    ['too many', { prompt: Array.from({ length: 1025 }, () => 'a') }, 400, 'request.invalid', 'prompt'],
    ['an empty text', { prompt: '', add_special_tokens: false }, 400, 'engine.invalid_request', 'prompt'],
    ['an id outside the vocabulary', { prompt: [[1], [1000]] }, 400, 'engine.invalid_request', 'prompt'],
    ['one too long, among others', { prompt: ['a', 'a'.repeat(512)] }, 400, 'context_length_exceeded', 'input_tokens'],
  ])('%s: refused before anything runs', async (_name, fields, status, code, param) => {
    for (const stream of [false, true]) {
      const response = await complete({ ...fields, stream });
      const { error } = response.json<ErrorBody>();
      expect([response.statusCode, error.code]).toEqual([status, code]);
      expect(error.param).toContain(param);
    }
    expect(server.inference.requests).toHaveLength(0);
  });
});

describe('truncation', () => {
  const LONG = 'a'.repeat(600) + 'xyz';

  test('comes before the length is looked at, after tokenising', async () => {
    expect((await complete({ prompt: LONG })).statusCode).toBe(400);
    await answerTo({ prompt: [LONG, 'b'], truncate_prompt_tokens: 3 });
    await answerTo({ prompt: LONG, truncate_prompt_tokens: 3, truncation_side: 'right' });
    await answerTo({ prompt: [...Buffer.from(LONG)], truncate_prompt_tokens: 2 });
    expect(promptIds()).toEqual([
      [120, 121, 122],
      [1, 98],
      [1, 97, 97],
      [121, 122],
    ]);
    // Truncation is done: the engine has nothing to cut.
    expect(server.inference.lastRequest.truncatePromptTokens).toBeNull();
  });

  test('of -1 leaves room for the reply', async () => {
    await answerTo({ prompt: LONG, truncate_prompt_tokens: -1, max_tokens: 100 });
    await answerTo({ prompt: LONG, truncate_prompt_tokens: -1 });
    expect(promptIds().map((ids) => ids?.length)).toEqual([412, 496]);
  });

  test('shows in an echo, which has only the remaining tokens', async () => {
    const { choices } = await answerTo({ prompt: [LONG, 'b'], truncate_prompt_tokens: 3, echo: true });
    expect(choices.map(({ text }) => text)).toEqual(['xyzhi', 'bhi']);
  });
});

describe('fields', () => {
  test('fields shared with chat mean the same', async () => {
    const fields = { temperature: '0.5', top_k: 3, stop: 'x', seed: 7, min_tokens: 1, priority: -1, cache_salt: 's' };
    await answerTo({ prompt: 'a', ...fields, ignore_eos: 'true', logit_bias: { 5: 500 }, stop_token_ids: [4, 4] });
    const { sampling, stop, minTokens, priority, cacheSalt, ignoreEos, stopTokenIds } = server.inference.lastRequest;
    expect([sampling.temperature, sampling.topK, sampling.seed, sampling.logitBias]).toEqual([0.5, 3, 7n, [[5, 500]]]);
    expect([stop, minTokens, priority, cacheSalt, ignoreEos, stopTokenIds]).toEqual([['x'], 1, -1, 's', true, [4]]);
  });

  test('reach the engine: constraints and banned words', async () => {
    await answerTo({
      prompt: 'a',
      structured_outputs: { choice: ['x', 'y'] },
      bad_words: ['no'],
      allowed_token_ids: [5],
    });
    const { constraint, badWords, allowedTokenIds } = server.inference.lastRequest;
    expect([constraint, badWords, allowedTokenIds]).toEqual([{ kind: 'choice', choices: ['x', 'y'] }, ['no'], [5]]);
    await answerTo({ prompt: 'a', response_format: { type: 'json_object' } });
    expect(server.inference.lastRequest.constraint).toMatchObject({ kind: 'json_object' });
    await answerTo({ prompt: 'a', use_beam_search: true, n: 3, length_penalty: 2, temperature: 0 });
    expect(server.inference.lastRequest).toMatchObject({ n: 3, beamSearch: { lengthPenalty: 2 } });
    const repetition = { max_pattern_size: 3, min_count: 2 };
    await answerTo({ prompt: 'a', repetition_detection: repetition, logprobs_mode: 'processed_logprobs' });
    expect(server.inference.lastRequest).toMatchObject({
      repetitionDetection: { maxPatternSize: 3, minPatternSize: 0, minCount: 2 },
      logprobsMode: 'processed',
    });
  });

  test.each(['response_format', 'structured_outputs'])('a refusal of the constraint names %s', async (field) => {
    server.inference.script = () => [failure('engine.invalid_request', 'the constraint is refused', 'constraint')];
    const value = { response_format: { type: 'json_object' }, structured_outputs: { json_object: true } };
    const response = await complete({ prompt: 'a', [field]: value[field as keyof typeof value] });
    expect([response.statusCode, response.json<ErrorBody>().error.param]).toEqual([400, field]);
  });

  test('max_tokens is 16 by default', async () => {
    await answerTo({ prompt: 'a' });
    await answerTo({ prompt: 'a', max_tokens: null });
    await answerTo({ prompt: 'a', max_tokens: 5 });
    expect(server.inference.requests.map((request) => request.maxTokens)).toEqual([16, 16, 5]);
  });

  test('a model by any of its names, with its exact weights in the answer', async () => {
    const { model, system_fingerprint: fingerprint, choices } = await answerTo({ prompt: 'a', model: 'agent@1' });
    expect([model, fingerprint]).toEqual(['acme/demo/agent:step1', 'trainyard-aaaaaaaa']);
    expect(server.inference.lastRequest.adapter?.digest).toBe('a'.repeat(64));
    // Fields that only training clients expect of a chat are off here.
    expect([choices[0]?.logprobs, choices[0]?.token_ids]).toEqual([null, null]);
  });

  test('ids of prompt and choice when asked', async () => {
    const { choices } = await answerTo({ prompt: ['a', 'b'], return_token_ids: true });
    expect(choices.map((choice) => [choice.prompt_token_ids, choice.token_ids])).toEqual([
      [
        [1, 97],
        [5, 6, 2],
      ],
      [
        [1, 98],
        [5, 6, 2],
      ],
    ]);
  });

  test.each([
    [{ max_tokens: 0 }, 400, 'request.conflict', 'max_tokens'],
    [{ max_tokens: 513 }, 400, 'request.conflict', 'max_tokens'],
    [{ min_tokens: 17 }, 400, 'request.conflict', 'min_tokens'],
    [{ temperature: 0, n: 2 }, 400, 'request.conflict', 'n'],
    [{ stream_options: { include_usage: true } }, 400, 'request.conflict', 'stream_options'],
    [{ echo: true, logprobs: 1, use_beam_search: true }, 400, 'request.conflict', 'logprobs'],
    [{ stream: true, use_beam_search: true }, 400, 'request.conflict', 'stream'],
    [{ stream: true, prompt_logprobs: 1 }, 400, 'request.conflict', 'prompt_logprobs'],
    [{ prompt_logprobs: 20, n: 16_384, prompt: 'abcd' }, 400, 'request.conflict', 'prompt_logprobs'],
    [{ logprob_token_ids: [5] }, 400, 'request.conflict', 'logprob_token_ids'],
    [{ logprob_token_ids: [1000], logprobs: 0 }, 400, 'request.conflict', 'logprob_token_ids'],
    [{ logprob_token_ids: [5], logprobs: 0, use_beam_search: true }, 400, 'request.conflict', 'logprob_token_ids'],
    [{ logprob_token_ids: Array.from({ length: 129 }, () => 1) }, 400, 'request.invalid', 'logprob_token_ids'],
    [{ truncate_prompt_tokens: 513 }, 400, 'request.conflict', 'truncate_prompt_tokens'],
    [{ truncate_prompt_tokens: 0 }, 400, 'request.conflict', 'truncate_prompt_tokens'],
    [{ suffix: 'x' }, 400, 'request.unsupported', 'suffix'],
    [{ best_of: 2 }, 400, 'request.unsupported', 'best_of'],
    [{ prompt_embeds: 'x' }, 400, 'request.unsupported', 'prompt_embeds'],
    [{ guided_json: { type: 'object' } }, 400, 'request.unsupported', 'guided_json'],
    [{ logprobs: 21 }, 400, 'request.conflict', 'logprobs'],
    [{ logprobs: -1 }, 400, 'request.invalid', 'logprobs'],
    [{ model: 'nobody' }, 404, 'request.unknown_model', 'model'],
    [{ seed: '9223372036854775808' }, 400, 'request.invalid', 'seed'],
  ])('%j is refused', async (fields, status, code, param) => {
    const response = await complete({ prompt: 'a', ...fields });
    const { error } = response.json<ErrorBody>();
    expect([response.statusCode, error.code, error.param]).toEqual([status, code, param]);
  });

  test('defaults of fields that are not implemented are accepted', async () => {
    const inert = { suffix: null, best_of: 1, use_beam_search: false, response_format: { type: 'text' } };
    expect((await answerTo({ prompt: 'a', ...inert })).choices).toHaveLength(1);
  });
});

describe('echo', () => {
  test('puts each prompt before its text, decoding ids', async () => {
    const texts = await answerTo({ prompt: ['ab', 'c'], echo: true });
    expect(texts.choices.map(({ text }) => text)).toEqual(['abhi', 'chi']);
    const ids = await answerTo({ prompt: [120, 121], echo: true });
    expect(ids.choices[0]?.text).toBe('xyhi');
  });

  test('with max_tokens 0 answers with only the prompt', async () => {
    const fields = { prompt: 'ab', echo: true, max_tokens: 0 };
    const { choices } = await answerTo(fields);
    expect(choices).toMatchObject([{ text: 'ab', finish_reason: 'length', stop_reason: null, token_ids: null }]);
    expect(server.inference.lastRequest.maxTokens).toBe(1);
    const withIds = await answerTo({ ...fields, return_token_ids: true });
    expect(withIds.choices).toMatchObject([{ text: '', token_ids: [], prompt_token_ids: [1, 97, 98] }]);
  });

  test('leaves the text out if ids are requested', async () => {
    const fields = { prompt: 'ab', echo: true, return_token_ids: true };
    const { choices } = await answerTo(fields);
    expect(choices).toMatchObject([{ text: 'hi', token_ids: [5, 6, 2], prompt_token_ids: [1, 97, 98] }]);
  });
});

describe('log-probabilities', () => {
  // Token i has the text `<i>` and the logprob −i/10; the most likely are 0, 1, 2, …
  test('have the sampled token and the most likely ones, and offsets into the text', async () => {
    server.inference.script = (request) =>
      replies(request, [
        { ids: [5], text: '<5>' },
        { ids: [1], text: '<1>' },
      ]);
    const { choices } = await answerTo({ prompt: 'a', logprobs: 2 });
    expect(server.inference.lastRequest.logprobs).toBe(3);
    expect(choices[0]?.logprobs).toEqual({
      tokens: ['<5>', '<1>', '<2>'],
      token_logprobs: [-0.5, -0.1, -0.2],
      text_offset: [0, 3, 6],
      top_logprobs: [
        { '<0>': 0, '<1>': -0.1, '<5>': -0.5 },
        { '<0>': 0, '<1>': -0.1 },
        { '<0>': 0, '<1>': -0.1, '<2>': -0.2 },
      ],
    });
  });

  test('are of chosen ids instead of the most likely ones', async () => {
    server.inference.script = (request) => {
      const events = replies({ ...request, logprobs: 2 }, [{ ids: [5], text: '<5>' }]);
      return [...events].map((event) => {
        if (event.kind !== 'delta' || event.logprobs === null) return event;
        const chosen = [900, 7, 0].map((id) => ({ id, logprob: -id, bytes: [], text: `<${id}>` }));
        return { ...event, logprobs: event.logprobs.map((entry) => ({ ...entry, top: [entry, ...chosen] })) };
      });
    };
    const { choices } = await answerTo({ prompt: 'a', logprobs: 1, logprob_token_ids: [900, 7, 0] });
    expect(server.inference.lastRequest.logprobTokenIds).toEqual([900, 7, 0]);
    const all = { '<5>': -0.5, '<900>': -900, '<7>': -7, '<0>': -0 };
    expect(choices[0]?.logprobs?.top_logprobs[0]).toEqual({ ...all, '<0>': 0 });
  });

  test('of 0 have only the sampled token, as an id on request', async () => {
    const { choices } = await answerTo({ prompt: 'a', logprobs: 0, return_tokens_as_token_ids: true });
    expect(choices[0]?.logprobs?.top_logprobs).toEqual([
      { 'token_id:5': -0.5 },
      { 'token_id:6': -0.6 },
      { 'token_id:2': -0.2 },
    ]);
    expect(choices[0]?.logprobs?.tokens).toEqual(['token_id:5', 'token_id:6', 'token_id:2']);
  });
});

describe('a stream', () => {
  const stream = async (fields: Record<string, unknown>) => {
    const { events, isDone } = readEvents((await complete({ stream: true, ...fields })).body);
    expect(isDone).toBe(true);
    return events as unknown as CompletionChunk[];
  };
  const textOf = (chunks: CompletionChunk[], index: number) =>
    chunks
      .flatMap(({ choices }) => choices.filter((choice) => choice.index === index).map(({ text }) => text))
      .join('');

  test('has no role chunk, the ids of the prompt in the first chunk of each choice, and the usage at the end', async () => {
    const options = { return_token_ids: true, stream_options: { include_usage: true }, n: 2 };
    const chunks = await stream({ prompt: ['a', 'b'], ...options });
    expect([0, 1, 2, 3].map((index) => textOf(chunks, index))).toEqual(['hi', 'hi', 'hi', 'hi']);
    for (const index of [0, 1, 2, 3]) {
      const ofChoice = chunks.flatMap(({ choices }) => choices.filter((choice) => choice.index === index));
      expect(ofChoice.map((choice) => choice.prompt_token_ids)).toEqual([[1, index < 2 ? 97 : 98], undefined]);
      expect(ofChoice.map((choice) => choice.token_ids)).toEqual([[5, 6], [2]]);
      expect(ofChoice.map((choice) => choice.finish_reason)).toEqual([null, 'stop']);
    }
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 6, completion_tokens: 12, total_tokens: 18 },
    });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === undefined)).toBe(true);
  });

  test('gives the same text and log-probabilities as the one answer', async () => {
    const fields = { prompt: ['ab', 'c'], logprobs: 2, n: 2 };
    const chunks = await stream(fields);
    const { choices } = await answerTo(fields);
    for (const { index, text, logprobs } of choices) {
      const ofChoice = chunks.flatMap((chunk) => chunk.choices.filter((choice) => choice.index === index));
      expect(textOf(chunks, index)).toBe(text);
      for (const column of ['tokens', 'token_logprobs', 'text_offset', 'top_logprobs'] as const)
        expect(ofChoice.flatMap((choice) => choice.logprobs?.[column] as unknown[])).toEqual(logprobs?.[column]);
    }
  });

  test('echoes each prompt once, and only the prompt with max_tokens 0', async () => {
    const echoed = await stream({ prompt: ['ab', 'c'], echo: true });
    expect([textOf(echoed, 0), textOf(echoed, 1)]).toEqual(['abhi', 'chi']);
    const alone = await stream({ prompt: 'ab', echo: true, max_tokens: 0 });
    expect(alone.map(({ choices }) => [choices[0]?.text, choices[0]?.finish_reason])).toEqual([['ab', 'length']]);
  });

  test('gathers tokens into chunks of an interval', async () => {
    server.inference.script = (request) =>
      replies(
        request,
        Array.from('abcde', (text) => ({ ids: [5], text })),
      );
    const chunks = await stream({ prompt: ['x', 'y'], stream_interval: 2 });
    for (const index of [0, 1]) {
      const ofChoice = chunks.flatMap(({ choices }) => choices.filter((choice) => choice.index === index));
      expect(ofChoice.map(({ text }) => text)).toEqual(['ab', 'cd', 'e']);
    }
  });

  test('has no idempotency', async () => {
    const response = await complete({ prompt: 'a', stream: true }, { 'idempotency-key': 'stream-1' });
    expect([response.statusCode, response.json<ErrorBody>().error.code]).toEqual([400, 'request.unsupported']);
  });

  test('a refusal of the engine has its own status', async () => {
    server.inference.script = () => [failure('engine.overloaded', 'full')];
    expect((await complete({ prompt: ['a', 'b'], stream: true })).statusCode).toBe(429);
  });

  test('a failure of one prompt on the way is the last event, and ends the others', async () => {
    const numEnded = server.inference.numEnded;
    server.inference.script = async function* (request, signal) {
      yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
      yield { kind: 'delta', index: 0, text: 'x', tokenIds: [5], logprobs: null };
      if (request.prompt.kind === 'tokens' && request.prompt.tokenIds[0] === 9)
        yield failure('engine.host_lost', 'the engine stopped');
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      yield failure('engine.aborted', 'aborted');
    };
    const { events } = readEvents((await complete({ prompt: [[8], [9]], stream: true })).body);
    expect(events.at(-1)?.error?.code).toBe('engine.host_lost');
    expect(server.inference.numEnded - numEnded).toBe(2);
  });
});

describe('like chat', () => {
  test('the same idempotency key has one effect', async () => {
    const headers = { 'idempotency-key': 'completion-1' };
    const first = await complete({ prompt: 'a' }, headers);
    const second = await complete({ prompt: 'a' }, headers);
    expect([second.body, second.headers['idempotent-replayed']]).toEqual([first.body, 'true']);
    expect(server.inference.requests).toHaveLength(1);
    expect((await complete({ prompt: 'b' }, headers)).statusCode).toBe(422);
  });

  test('tokens of all prompts are counted for the key', async () => {
    await answerTo({ prompt: ['a', 'b'], model: 'agent' });
    const usage = await server.store.usage.sum({ entityId: (await server.store.keys.ensureEntity('acme')).id });
    expect(usage.find(({ kind, model }) => kind === 'completion' && model === 'acme/demo/agent:step1')).toMatchObject({
      promptTokens: 6 + 3,
      completionTokens: 6 + 3,
    });
  });

  test('a client that leaves ends all of its generations', async () => {
    const numEnded = server.inference.numEnded;
    server.inference.script = async function* (_request, signal) {
      yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
      yield { kind: 'delta', index: 0, text: 'x', tokenIds: [5], logprobs: null };
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      yield failure('engine.aborted', 'aborted');
    };
    const url = await server.app.listen({ port: 0, host: '127.0.0.1' });
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: server.key, maxRetries: 0 });
    const stream = await client.completions.create({ model: 'agent', prompt: ['a', 'b', 'c'], stream: true });
    for await (const chunk of stream) {
      expect(chunk.choices[0]?.text).toBe('x');
      break;
    }
    await expect.poll(() => server.inference.numEnded - numEnded).toBe(3);
  });
});

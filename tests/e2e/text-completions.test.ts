import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { ChatCompletion, Completion, CompletionChunk, TokenizeResponse } from '@trainyard/protocol';

import { ownService, type OwnService } from '../../scripts/own-service.ts';

/** Chat and text completions use one engine: the same prompt gives the same tokens through both. */

let service: OwnService;

beforeAll(async () => {
  service = await ownService();
});

afterAll(async () => {
  await service.close();
});

async function post(path: string, body: object): Promise<Response> {
  return await fetch(`${service.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

async function answer<Answer>(path: string, body: object): Promise<Answer> {
  const response = await post(path, body);
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text) as Answer;
}

const messages = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Name a colour. <|im_end|>' },
];
const greedy = { temperature: 0, max_tokens: 12 };

describe('a conversation', () => {
  it('tokenised and completed as ids or as text, gives the tokens of the chat', async () => {
    const chat = await answer<ChatCompletion>('/chat/completions', {
      messages,
      ...greedy,
      logprobs: true,
      top_logprobs: 3,
      return_token_ids: true,
    });
    const choice = chat.choices[0]!;
    const { tokens, count } = await answer<TokenizeResponse>('/tokenize', { messages });
    expect(tokens).toEqual(chat.prompt_token_ids);
    expect(count).toBe(chat.usage.prompt_tokens);

    const byIds = await answer<Completion>('/completions', {
      prompt: tokens,
      ...greedy,
      logprobs: 3,
      return_token_ids: true,
    });
    expect(byIds.choices[0]!.token_ids).toEqual(choice.token_ids);
    expect(byIds.choices[0]!.text).toBe(choice.message.content);
    expect(byIds.usage.completion_tokens).toBe(chat.usage.completion_tokens);
    expect(byIds.usage.prompt_tokens_details!.cached_tokens).toBeGreaterThan(0);

    const {
      token_logprobs: logprobs,
      tokens: names,
      top_logprobs: tops,
      text_offset: offsets,
    } = byIds.choices[0]!.logprobs!;
    const differences = choice.logprobs!.content.map(({ logprob }, index) => Math.abs(logprob - logprobs[index]!));
    console.log(`largest difference of a log-probability between chat and text: ${Math.max(...differences)}`);
    // The chat computed its prompt, the text completion took it from the cache: the batches differ, and their
    // rounding in half precision.
    expect(Math.max(...differences)).toBeLessThan(0.02);
    expect(names).toEqual(choice.logprobs!.content.map(({ token }) => token));
    const { text } = byIds.choices[0]!;
    // Plain letters, so that every character is one unit of the text; the last token ends the turn and has no
    // text.
    expect(text).toMatch(/^[\x20-\x7e\n]+$/);
    expect(names.slice(0, -1).every((name, index) => text.startsWith(name, offsets[index]))).toBe(true);
    // Greedy: the sampled token is the most likely one, so there are as many as requested.
    const ids = { return_tokens_as_token_ids: true, logprobs: 3 };
    const named = await answer<Completion>('/completions', { prompt: tokens, ...greedy, ...ids });
    const counts = named.choices[0]!.logprobs!.top_logprobs.map((top) => Object.keys(top!).length);
    expect(counts).toEqual(names.map(() => 3));
    expect(tops).toHaveLength(names.length);
  });

  it('is the same text again', async () => {
    const text = 'One, two: ünïcödé 😀\n\tthree <|im_start|>user';
    const {
      tokens,
      token_strs: strings,
      max_model_len: length,
    } = await answer<TokenizeResponse>('/tokenize', {
      prompt: text,
      return_token_strs: true,
    });
    expect((await answer<{ prompt: string }>('/detokenize', { tokens })).prompt).toBe(text);
    expect(strings).toContain('<|im_start|>');
    expect(length).toBe(8192);
    const { choices } = await answer<Completion>('/completions', { prompt: text, ...greedy, echo: true });
    const byIds = await answer<Completion>('/completions', { prompt: tokens, ...greedy });
    expect(choices[0]!.text).toBe(text + byIds.choices[0]!.text);
  });
});

describe('an echo', () => {
  it('reports the log-probabilities of sampling the same tokens, in one answer and as a stream', async () => {
    const asked = { prompt: 'The capital of France is', ...greedy, logprobs: 2 };
    const [sampled] = (await answer<Completion>('/completions', { ...asked, return_token_ids: true })).choices;
    const reply = sampled!.token_ids!;
    const whole = { prompt: [...sampled!.prompt_token_ids!, ...reply], echo: true, max_tokens: 0, logprobs: 2 };
    const [echoed] = (await answer<Completion>('/completions', whole)).choices;
    const reported = echoed!.logprobs!;
    expect(reported.tokens).toHaveLength(whole.prompt.length);
    expect(reported.token_logprobs[0]).toBeNull();
    const differences = reported.token_logprobs
      .slice(-reply.length)
      .map((logprob, index) => Math.abs(logprob! - sampled!.logprobs!.token_logprobs[index]!));
    console.log(`largest difference of a log-probability between sampling and echo: ${Math.max(...differences)}`);
    // The same weights in batches of other shapes.
    expect(Math.max(...differences)).toBeLessThan(0.05);
    expect(reported.tokens.slice(-reply.length)).toEqual(sampled!.logprobs!.tokens);
    expect(reported.tokens.every((token, index) => echoed!.text.startsWith(token, reported.text_offset[index]))).toBe(
      true,
    );
    // Keyed by id, the prompt's own token first.
    expect(echoed!.prompt_logprobs).toHaveLength(whole.prompt.length);

    const stream = await (await post('/completions', { ...whole, stream: true })).text();
    const [first] = stream.split('\n\n');
    const [chunk] = (JSON.parse(first!.slice('data: '.length)) as CompletionChunk).choices;
    expect(chunk).toMatchObject({ text: echoed!.text, finish_reason: 'length' });
    expect(chunk!.logprobs!.tokens).toEqual(reported.tokens);
    const again = chunk!.logprobs!.token_logprobs.map((logprob, index) =>
      Math.abs((logprob ?? 0) - (reported.token_logprobs[index] ?? 0)),
    );
    expect(Math.max(...again)).toBeLessThan(0.05);
  });
});

describe('a completion', () => {
  const prompt = 'The capital of France is';

  it('follows its constraint', async () => {
    const choice = { structured_outputs: { choice: [' Rome', ' Oslo'] } };
    const [chosen] = (await answer<Completion>('/completions', { prompt, ...greedy, ...choice })).choices;
    expect([' Rome', ' Oslo']).toContain(chosen!.text);
    expect(chosen!.finish_reason).toBe('stop');
    const schema = { type: 'object', properties: { big: { type: 'boolean' } }, required: ['big'] };
    const format = { response_format: { type: 'json_schema', json_schema: { name: 'city', schema } }, max_tokens: 40 };
    const texts = (await answer<Completion>('/completions', { prompt: [prompt, 'x'], n: 2, ...format })).choices;
    for (const { text } of texts) expect(typeof (JSON.parse(text) as { big: unknown }).big).toBe('boolean');
  });

  it('leaves out bad words, and is the likeliest of beams', async () => {
    const [free] = (await answer<Completion>('/completions', { prompt, ...greedy })).choices;
    const word = free!.text.trim().split(/\s/)[0]!;
    const [without] = (await answer<Completion>('/completions', { prompt, ...greedy, bad_words: [word] })).choices;
    expect(without!.text).not.toContain(word);

    const search = { prompt, max_tokens: 6, ignore_eos: true, logprobs: 0, use_beam_search: true, n: 3 };
    const beams = (await answer<Completion>('/completions', search)).choices;
    const scores = beams.map(({ logprobs }) =>
      logprobs!.token_logprobs.reduce<number>((sum, value) => sum + value!, 0),
    );
    console.log(`beams: ${scores.map((score) => score.toFixed(3)).join(', ')}`);
    expect(scores).toEqual(scores.toSorted((first, second) => second - first));
    expect(new Set(beams.map(({ text }) => text)).size).toBe(3);
  });

  it('reports chosen ids instead of the likeliest', async () => {
    const asked = { prompt, ...greedy, logprobs: 1, logprob_token_ids: [9, 8], return_tokens_as_token_ids: true };
    const [choice] = (await answer<Completion>('/completions', asked)).choices;
    const { tokens, top_logprobs: tops } = choice!.logprobs!;
    for (const [place, top] of tops.entries())
      expect(new Set(Object.keys(top!))).toEqual(new Set([tokens[place], 'token_id:9', 'token_id:8']));
  });
});

describe('tools with a response format', () => {
  it('leave the model its choice: a call, or the format', async () => {
    const schema = { type: 'object', properties: { city: { type: 'string', maxLength: 20 } }, required: ['city'] };
    const tool = { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } };
    const asked = {
      messages: [{ role: 'user', content: 'What is the weather in Paris? Call the function get_weather.' }],
      tools: [{ type: 'function', function: tool }],
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
      n: 6,
      seed: 1,
      max_tokens: 60,
    };
    const { choices } = await answer<ChatCompletion>('/chat/completions', asked);
    const ended = choices.filter(({ finish_reason: reason }) => reason !== 'length');
    const calls = ended.filter(({ message }) => message.tool_calls !== undefined);
    console.log(
      `of 6 replies ${calls.length} are calls, ${ended.length - calls.length} the format, ${6 - ended.length} cut off`,
    );
    expect(ended.length).toBeGreaterThan(0);
    for (const { message, finish_reason: reason } of ended) {
      if (reason === 'tool_calls') expect(message.tool_calls?.[0]?.function.name).toBe('get_weather');
      else expect(typeof (JSON.parse(message.content!) as { city: unknown }).city).toBe('string');
    }
  });
});

describe('several prompts', () => {
  const prompts = ['The capital of France is', 'Two and two are', 'Once upon a time'];

  it('answer as each prompt alone, in one answer and as a stream', async () => {
    const alone = await Promise.all(prompts.map((prompt) => answer<Completion>('/completions', { prompt, ...greedy })));
    const together = await answer<Completion>('/completions', { prompt: prompts, ...greedy });
    expect(together.choices.map(({ text }) => text)).toEqual(alone.map(({ choices }) => choices[0]!.text));
    expect(together.usage.prompt_tokens).toBe(alone.reduce((sum, { usage }) => sum + usage.prompt_tokens, 0));

    const stream = await (await post('/completions', { prompt: prompts, ...greedy, stream: true })).text();
    const texts = ['', '', ''];
    const events = stream.split('\n\n').filter(Boolean);
    expect(events.at(-1)).toBe('data: [DONE]');
    for (const event of events.slice(0, -1)) {
      const [choice] = (JSON.parse(event.slice('data: '.length)) as CompletionChunk).choices;
      texts[choice!.index] += choice!.text;
    }
    expect(texts).toEqual(together.choices.map(({ text }) => text));
  });

  it('are all refused if one is too long, before any runs, also as a stream', async () => {
    for (const stream of [false, true]) {
      const response = await post('/completions', { prompt: ['short', 'word '.repeat(9_000)], stream });
      const { error } = (await response.json()) as { error: { code: string; param: string } };
      expect([response.status, error.code, error.param]).toEqual([400, 'context_length_exceeded', 'input_tokens']);
    }
  });
});

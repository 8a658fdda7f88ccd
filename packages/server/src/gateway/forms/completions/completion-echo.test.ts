import type { PromptLogprob } from '@trainyard/backend';
import type { EngineEvent } from '@trainyard/generation';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Completion, CompletionChunk, CompletionLogprobs } from '@trainyard/protocol';

import type { InferenceRequest } from '../../../seams/contract/backends.ts';
import { replies } from '../../../testing/scripted-inference.ts';
import { readEvents, TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
beforeEach(() => {
  server.inference.requests.length = 0;
  server.inference.script = scored;
});
afterAll(() => server.close());

/**
 * Token 1 starts every text; the others are their characters. The most likely three are always `900`, `7`,
 * `50`, by rank.
 */
const face = (id: number) => {
  const text = id === 1 ? '<s>' : String.fromCodePoint(id);
  return { id, text, bytes: [...Buffer.from(text)] };
};
const LIKELIEST = [900, 7, 50];

function* scored(request: InferenceRequest): Generator<EngineEvent> {
  const ids = request.prompt.kind === 'tokens' ? request.prompt.tokenIds : [];
  const { promptLogprobs: numTop, promptLogprobsFirst } = request;
  const [, ...rest] = replies(request, [{ ids: [5], text: '<5>' }]);
  yield { kind: 'started', promptTokenIds: [...ids], cachedTokens: 0 };
  if (numTop !== null && promptLogprobsFirst === true) {
    const entry = (id: number, at: number): PromptLogprob[] => [
      { ...face(id), logprob: -at, rank: 40 + at },
      ...LIKELIEST.slice(0, numTop).map((top, i) => ({ ...face(top), logprob: -0.1 * (i + 1), rank: i + 1 })),
    ];
    const promptLogprobs = ids.map((id, at) => (at === 0 ? null : entry(id, at)));
    yield { kind: 'prompt_scored', first: face(ids[0] ?? 0), promptLogprobs };
  }
  yield* rest;
}

const answerText = async (fields: Record<string, unknown>) => {
  const response = await server.request('POST', '/v1/completions', fields);
  expect(response.statusCode, response.body).toBe(200);
  return response.body;
};
const answerTo = async (fields: Record<string, unknown>) => JSON.parse(await answerText(fields)) as Completion;
const chunksOf = async (fields: Record<string, unknown>) => {
  const { events, isDone } = readEvents(await answerText({ ...fields, stream: true }));
  expect(isDone).toBe(true);
  return events as unknown as CompletionChunk[];
};

const columnsOf = (chunks: CompletionChunk[], index: number): CompletionLogprobs => {
  const all: CompletionLogprobs = { text_offset: [], token_logprobs: [], tokens: [], top_logprobs: [] };
  for (const { logprobs } of chunks.flatMap(({ choices }) => choices.filter((choice) => choice.index === index))) {
    all.text_offset.push(...(logprobs?.text_offset ?? []));
    all.token_logprobs.push(...(logprobs?.token_logprobs ?? []));
    all.tokens.push(...(logprobs?.tokens ?? []));
    all.top_logprobs.push(...(logprobs?.top_logprobs ?? []));
  }
  return all;
};

describe('an echo with log-probabilities', () => {
  const WHOLE = {
    tokens: ['<s>', 'a', 'b', '<5>', '<2>'],
    token_logprobs: [null, -1, -2, -0.5, -0.2],
    // The token that starts every text is not in the echoed one.
    text_offset: [0, 0, 1, 2, 5],
    top_logprobs: [
      null,
      { a: -1, '\u0384': -0.1 },
      { b: -2, '\u0384': -0.1 },
      { '<5>': -0.5, '<0>': 0 },
      { '<2>': -0.2, '<0>': 0 },
    ],
  };

  test('has those of the prompt first, the very first null', async () => {
    const { choices } = await answerTo({ prompt: 'ab', echo: true, logprobs: 1 });
    expect(choices[0]?.text).toBe('ab<5>');
    expect(choices[0]?.logprobs).toEqual(WHOLE);
  });

  test('has the same in a stream, for every prompt and choice', async () => {
    const shared = { n: 2, echo: true, logprobs: 2 };
    const texts = { prompt: ['ab', 'c', 'é'], ...shared };
    const ids = { prompt: [[98, 97], [99]], ...shared };
    for (const fields of [texts, ids]) {
      const chunks = await chunksOf(fields);
      const { choices } = await answerTo(fields);
      expect(choices).toHaveLength(2 * fields.prompt.length);
      for (const { index, text, logprobs } of choices) {
        const ofChoice = chunks.flatMap((chunk) => chunk.choices.filter((choice) => choice.index === index));
        expect(ofChoice.map((choice) => choice.text).join('')).toBe(text);
        expect(ofChoice[0]?.logprobs?.token_logprobs[0]).toBeNull();
        expect(columnsOf(chunks, index)).toEqual(logprobs);
        // Each offset is the start of its token in the text.
        for (const [at, token] of (logprobs?.tokens ?? []).entries())
          if (token.length === 1) expect(text[logprobs?.text_offset[at] ?? -1]).toBe(token);
      }
    }
  });

  test('and max_tokens 0 has only the prompt, in one answer and in a stream', async () => {
    const fields = { prompt: 'ab', echo: true, logprobs: 1, max_tokens: 0 };
    const alone = Object.fromEntries(Object.entries(WHOLE).map(([name, column]) => [name, column.slice(0, 3)]));
    const { choices, usage } = await answerTo(fields);
    expect(choices).toMatchObject([{ text: 'ab', finish_reason: 'length', logprobs: alone }]);
    // One token was still sampled.
    expect(usage.completion_tokens).toBeGreaterThan(0);
    const chunks = await chunksOf(fields);
    expect(chunks).toHaveLength(1);
    expect(chunks[0]?.choices).toMatchObject([{ text: 'ab', finish_reason: 'length', logprobs: alone }]);
  });

  test('names tokens as ids when asked, and leaves the text, not the tokens, to the ids', async () => {
    const fields = { prompt: 'ab', echo: true, logprobs: 0, return_tokens_as_token_ids: true, return_token_ids: true };
    const { choices } = await answerTo(fields);
    expect(choices[0]).toMatchObject({ text: '<5>', token_ids: [5, 2], prompt_token_ids: [1, 97, 98] });
    expect(choices[0]?.logprobs).toMatchObject({
      tokens: ['token_id:1', 'token_id:97', 'token_id:98', 'token_id:5', 'token_id:2'],
      text_offset: [0, 0, 1, 2, 5],
      top_logprobs: [
        null,
        { 'token_id:97': -1 },
        { 'token_id:98': -2 },
        { 'token_id:5': -0.5 },
        { 'token_id:2': -0.2 },
      ],
    });
  });
});

describe('prompt_logprobs', () => {
  test('are in each choice: null, then by id, the own token first at any rank', async () => {
    const body = await answerText({ prompt: [[97, 98], [99]], n: 2, prompt_logprobs: 2 });
    const { choices } = JSON.parse(body) as Completion;
    expect(choices.map(({ prompt_logprobs: entries }) => entries?.length)).toEqual([2, 2, 1, 1]);
    expect(choices[0]?.prompt_logprobs).toEqual([
      null,
      {
        98: { logprob: -1, rank: 41, decoded_token: 'b' },
        900: { logprob: -0.1, rank: 1, decoded_token: '\u0384' },
        7: { logprob: -0.2, rank: 2, decoded_token: '\u0007' },
      },
    ]);
    expect(body).toMatch(/"prompt_logprobs":\[null,\{"98":\{[^}]*\},"900":\{[^}]*\},"7":/);
    expect(choices[2]?.prompt_logprobs).toEqual([null]);
  });

  test('come with an echo that has log-probabilities; each form has as many as it asked for', async () => {
    const { choices } = await answerTo({ prompt: 'ab', echo: true, logprobs: 1 });
    expect(choices[0]?.prompt_logprobs?.map((entry) => entry && Object.keys(entry).length)).toEqual([null, 2, 2]);
    const both = await answerTo({ prompt: 'ab', echo: true, logprobs: 1, prompt_logprobs: 3 });
    expect(server.inference.lastRequest.promptLogprobs).toBe(3);
    expect(both.choices[0]?.prompt_logprobs?.map((entry) => entry && Object.keys(entry).length)).toEqual([null, 4, 4]);
    expect(both.choices[0]?.logprobs?.top_logprobs[1]).toEqual({ a: -1, '\u0384': -0.1 });
  });

  test('are null unless asked for, and 0 asks for the own tokens', async () => {
    expect((await answerTo({ prompt: 'ab', logprobs: 1 })).choices[0]?.prompt_logprobs).toBeNull();
    expect(server.inference.lastRequest.promptLogprobs).toBeNull();
    expect((await answerTo({ prompt: 'ab', prompt_logprobs: 0 })).choices[0]?.prompt_logprobs).toMatchObject([
      null,
      { 97: { rank: 41 } },
      { 98: { rank: 42 } },
    ]);
    // vLLM accepts this in a stream, and never sends them.
    await chunksOf({ prompt: 'ab', prompt_logprobs: 0 });
    expect(server.inference.lastRequest.promptLogprobs).toBeNull();
  });
});

test('the text of the prompt comes when asked for, in a stream once a choice', async () => {
  const fields = { prompt: ['ab', 'c'], return_prompt_text: true };
  const { choices } = await answerTo(fields);
  expect(choices.map((choice) => choice.prompt_text)).toEqual(['\u0001ab', '\u0001c']);
  const chunks = await chunksOf(fields);
  for (const [index, text] of ['\u0001ab', '\u0001c'].entries()) {
    const ofChoice = chunks.flatMap((chunk) => chunk.choices.filter((choice) => choice.index === index));
    expect(ofChoice.map((choice) => choice.prompt_text)).toEqual([text, ...ofChoice.slice(1).map(() => undefined)]);
  }
  expect((await answerTo({ prompt: 'ab' })).choices[0]).not.toHaveProperty('prompt_text');
});

test('the token itself comes first among the likeliest, also if its text is a number', async () => {
  const one = '1'.codePointAt(0)!;
  server.inference.script = function* (request) {
    const numTop = request.logprobs ?? 0;
    const top = [face('b'.codePointAt(0)!), face(one)].map((entry, i) => ({ ...entry, logprob: -0.1 * (i + 1) }));
    const sampled = top[0]!;
    yield { kind: 'started', promptTokenIds: [97, 98, one], cachedTokens: 0 };
    if (request.promptLogprobsFirst) {
      const own = { ...face(98), logprob: -2, rank: 3 };
      const other = { ...face(one), logprob: -1, rank: 1 };
      yield { kind: 'prompt_scored', first: face(97), promptLogprobs: [null, [own, other]] };
    }
    const logprobs = [{ ...sampled, top: top.slice(0, numTop) }];
    yield { kind: 'delta', index: 0, text: 'b', tokenIds: [98], logprobs };
    yield {
      kind: 'finished',
      index: 0,
      text: '',
      tokenIds: [],
      logprobs: [],
      finishReason: 'length',
      stopReason: null,
    };
    yield { kind: 'completed', usage: { promptTokens: 2, completionTokens: 1, cachedTokens: 0 } };
  };
  const told = '"top_logprobs":[null,{"b":-2,"1":-1},{"b":-0.1,"1":-0.2}]';
  const fields = { prompt: [97, 98], logprobs: 1, echo: true, max_tokens: 1 };
  expect(await answerText({ ...fields, logprobs: 2 })).toContain(told);
  expect(await answerText({ ...fields, logprobs: 2, stream: true })).toContain(told);
});

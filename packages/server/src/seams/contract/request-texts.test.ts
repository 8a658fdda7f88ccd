import { DEFAULT_CHAT_PROMPT, DEFAULT_GENERATE, type EngineEvent, type GenerateRequest } from '@trainyard/generation';
import { expect, test } from 'vitest';

import { readRequestEvents, requestEventsText } from './event-texts.ts';
import { readRequest, requestText } from './request-texts.ts';

const REQUEST: GenerateRequest = {
  ...DEFAULT_GENERATE,
  requestId: 'r',
  tenant: 't',
  prompt: {
    ...DEFAULT_CHAT_PROMPT,
    messages: [{ role: 'user', content: 'ä\0\ud800 🚂', ['__proto__' as string]: [null, 1e308, -1.5] }],
  },
  sampling: { ...DEFAULT_GENERATE.sampling, temperature: 0.1 + 0.2, logitBias: [[5, -1.5]] },
  adapter: { digest: 'a'.repeat(64), path: '/somewhere/adapter.gguf' },
};

test.each([null, 0n, -1n, 2n ** 63n - 1n, -(2n ** 63n)])(
  'a request comes out as it went in, with the seed %s',
  (seed) => {
    const request = { ...REQUEST, sampling: { ...REQUEST.sampling, seed } };
    expect(readRequest(requestText(request))).toEqual(request);
  },
);

test('default fields are omitted from the text, and restored on reading', () => {
  const request: GenerateRequest = {
    ...DEFAULT_GENERATE,
    requestId: 'r',
    tenant: 't',
    prompt: { kind: 'tokens', tokenIds: [1] },
    // Equal to the defaults, with different list objects; null if the default is null.
    sampling: { ...DEFAULT_GENERATE.sampling, logitBias: [] },
    stop: [],
    logprobs: 0,
    ignoreEos: !DEFAULT_GENERATE.ignoreEos,
  };
  expect(JSON.parse(requestText(request))).toEqual({
    requestId: 'r',
    tenant: 't',
    prompt: { kind: 'tokens', tokenIds: [1] },
    logprobs: 0,
    ignoreEos: true,
    sampling: {},
  });
  expect(readRequest(requestText(request))).toEqual(request);
});

test('every field that is not as usual comes out as it went in', () => {
  const other = (value: unknown): unknown =>
    typeof value === 'boolean' ? !value : typeof value === 'number' ? value + 1 : value === null ? 7 : value;
  const changed = (fields: object) =>
    Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, other(value)]));
  const request = {
    ...REQUEST,
    ...changed(DEFAULT_GENERATE),
    sampling: { ...(changed(DEFAULT_GENERATE.sampling) as unknown as GenerateRequest['sampling']), seed: 5n },
  };
  expect(readRequest(requestText(request))).toEqual(request);
});

test.each([0, 1, 20_000])('%d ids of a prompt come out as they went in, one prompt after the other', (numTokens) => {
  const started = (first: number): [string, EngineEvent] => [
    `r-${first}`,
    {
      kind: 'started',
      promptTokenIds: Array.from({ length: numTokens }, (_, at) => first + at * 7),
      cachedTokens: 3,
    },
  ];
  const events = [started(0), started(2 ** 31 - 1 - 7 * numTokens), started(5)];
  expect(readRequestEvents(requestEventsText(events))).toEqual(events);
});

test('events of several requests are read back with their ids, in order, to the bit', () => {
  const delta: EngineEvent = {
    kind: 'delta',
    index: 0,
    text: '"]\n🚂',
    tokenIds: [2 ** 31 - 1],
    logprobs: [{ id: 1, bytes: [10], text: '\n', logprob: -0.1 - 0.2, top: [] }],
  };
  const finished: EngineEvent = {
    kind: 'finished',
    index: 0,
    text: '',
    tokenIds: [1],
    logprobs: null,
    sampling: {
      settings: { ...DEFAULT_GENERATE.sampling, isMasked: false, logitBias: [] },
      trace: { logprobs: Float32Array.of(-0.1, -1e-30, 0), kept: Uint8Array.of(0, 255) },
      lost: null,
    },
    finishReason: 'stop',
    stopReason: null,
  };
  const events: [string, EngineEvent][] = [
    ['a-1', delta],
    ['b-2', finished],
    ['a-1', finished],
  ];
  expect(readRequestEvents(requestEventsText(events))).toEqual(events);
  expect(readRequestEvents(requestEventsText([]))).toEqual([]);
});

import { DEFAULT_CHAT_PROMPT, DEFAULT_GENERATE, type EngineEvent } from '@trainyard/generation';
import { SAMPLING_FIELDS } from '@trainyard/protocol/fields';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { InferenceRequest } from '../../seams/contract/backends.ts';
import { ENGINE_PROTOCOL, protocolOf } from './engine-protocol.ts';
import { EngineSecret } from './engine-secret.ts';
import { jsonLines } from './json-lines.ts';
import { isProof, proofOf, readHello, readSignature, sign, signHello } from './signature.ts';
import { eventsText, eventText, readEvents } from '../../seams/contract/event-texts.ts';
import { generateText, readGenerate } from './wire-request.ts';

const REQUEST: InferenceRequest = {
  ...DEFAULT_GENERATE,
  requestId: 'r',
  tenant: 't',
  prompt: { ...DEFAULT_CHAT_PROMPT, messages: [{ role: 'user', content: 'ä\0\ud800 🚂' }] },
  sampling: { ...DEFAULT_GENERATE.sampling, temperature: 0.1 + 0.2, seed: 2n ** 63n - 1n, logitBias: [[5, -1.5]] },
  adapter: { digest: 'a'.repeat(64), directoryKey: 'checkpoints/1', path: '/somewhere/adapter.gguf' },
};

describe('a request', () => {
  test('comes out as it went in, and its adapter without a path of the machine that asked', () => {
    const text = generateText({ model: 'base', request: REQUEST });
    expect(text).not.toContain('somewhere');
    const read = readGenerate(JSON.parse(text));
    expect(read).toEqual({ model: 'base', request: { ...REQUEST, adapter: { ...REQUEST.adapter, path: null } } });
    for (const seed of [null, -1n, 0n, -(2n ** 63n)]) {
      const request = { ...REQUEST, adapter: null, sampling: { ...REQUEST.sampling, seed } };
      expect(readGenerate(JSON.parse(generateText({ model: 'base', request }))).request).toEqual(request);
    }
  });

  const whole = JSON.parse(generateText({ model: 'base', request: REQUEST })) as { model: string; request: object };
  test.each([
    ['model must be text', { ...whole, model: 7 }],
    ['request must be an object', { ...whole, request: [] }],
    ['requestId must be text', { ...whole, request: { ...whole.request, requestId: null } }],
    ['n must be a number, got a string', { ...whole, request: { ...whole.request, n: '1' } }],
    ['prompt is of no known kind', { ...whole, request: { ...whole.request, prompt: { kind: 'other' } } }],
    ['the seed must be digits', { ...whole, request: { ...whole.request, sampling: { seed: 'x' } } }],
    ['adapter.digest must be 64 digits', { ...whole, request: { ...whole.request, adapter: { digest: '../x' } } }],
    ['sampling must be an object', { ...whole, request: { ...whole.request, sampling: null } }],
  ])('an invalid one is refused: %s', (words, body) => {
    expect(() => readGenerate(body)).toThrow(words);
  });

  test('with a field less is refused by its name', () => {
    // The request's origin has the span.
    const { traceParent: _inOrigin, ...carried } = DEFAULT_GENERATE;
    for (const name of Object.keys(carried)) {
      const { [name]: _left, ...request } = whole.request as Record<string, unknown>;
      expect(() => readGenerate({ ...whole, request })).toThrow(name);
    }
  });
});

test('a request with a field that this release does not know is refused by its name, at every depth', () => {
  const whole = {
    ...REQUEST,
    reply: { tools: null, toolsText: null, toolChoice: 'auto', parallelToolCalls: true },
    beamSearch: { lengthPenalty: 1 },
    repetitionDetection: { maxPatternSize: 4, minPatternSize: 1, minCount: 2 },
  } as const;
  const body = () =>
    JSON.parse(generateText({ model: 'base', request: whole })) as { request: Record<string, Record<string, unknown>> };
  expect(readGenerate(body()).request).toMatchObject({ reply: whole.reply, beamSearch: whole.beamSearch });
  for (const part of ['sampling', 'prompt', 'reply', 'beamSearch', 'repetitionDetection']) {
    const newer = body();
    newer.request[part]!['newer'] = 1;
    expect(() => readGenerate(newer)).toThrow(`${part}.newer is not known to this release`);
  }
  const newer = body();
  newer.request['newer'] = {};
  expect(() => readGenerate(newer)).toThrow('request.newer is not known to this release');
});

test('an engine that takes fewer values of a parameter, or lacks one, speaks another protocol', () => {
  expect(protocolOf(SAMPLING_FIELDS)).toBe(ENGINE_PROTOCOL);
  const { logprobs_mode: mode, ...others } = SAMPLING_FIELDS;
  const older = protocolOf({ ...others, logprobs_mode: { ...mode, param: { enum: ['raw', 'processed'] } } });
  expect(older).not.toBe(ENGINE_PROTOCOL);
  expect(protocolOf(others)).not.toBe(ENGINE_PROTOCOL);
  // Neither descriptions nor the order of the table are part of the protocol.
  const { form, param } = mode;
  expect(protocolOf({ mode: { name: 'logprobsMode', form, param }, ...others })).toBe(ENGINE_PROTOCOL);
});

test('events come back to the bit, the arrays of a trace too', () => {
  const trace = { logprobs: Float32Array.of(-0.1, -1e-30, 0), kept: Uint8Array.of(0, 255, 10, 13) };
  const settings = { ...DEFAULT_GENERATE.sampling, isMasked: false, logitBias: [] };
  const finished: EngineEvent = {
    kind: 'finished',
    index: 0,
    text: 'a\n\u2028🚂',
    tokenIds: [1, 2 ** 31 - 1],
    logprobs: [{ id: 1, bytes: [10], text: '\n', logprob: -0.1 - 0.2, top: [] }],
    sampling: { settings, trace, lost: null },
    finishReason: 'stop',
    stopReason: null,
  };
  expect(readEvents(eventsText([eventText(finished), eventText(finished)]))).toEqual([finished, finished]);
  for (const sampling of [null, { settings, trace: null, lost: 'greedy' as const }])
    expect(readEvents(eventsText([eventText({ ...finished, sampling })]))).toEqual([{ ...finished, sampling }]);
  for (const wrong of ['', '{', 'null', '{}', '7', '[null]', '[7]', '[{}]', '[[]]'])
    expect(() => readEvents(wrong)).toThrow(SyntaxError);
});

describe('lines', () => {
  async function read(pieces: readonly Buffer[], maxBytes = 1_000): Promise<string[]> {
    const lines: string[] = [];
    async function* source() {
      yield* pieces;
    }
    for await (const line of jsonLines(source(), maxBytes)) lines.push(line);
    return lines;
  }

  test('are the same however they are cut, in the middle of a character too', async () => {
    const line = fc.string({ unit: 'grapheme' }).filter((text) => !text.includes('\n'));
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 8 }),
        fc.array(fc.nat(40), { maxLength: 30 }),
        async (lines, cuts) => {
          const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(''));
          const pieces: Buffer[] = [];
          let from = 0;
          for (const length of cuts) pieces.push(bytes.subarray(from, (from += length)));
          expect(await read([...pieces, bytes.subarray(from)])).toEqual(lines);
        },
      ),
    );
  });

  test('a long one is given up, and an end within one is no line', async () => {
    await expect(read([Buffer.alloc(600, 97), Buffer.alloc(600, 97)])).rejects.toThrow('more than 1000 bytes');
    await expect(read([Buffer.from('{"a":1}\n{"b"')])).rejects.toThrow('within a line');
  });
});

describe('a signature', () => {
  const [secret, other] = [new EngineSecret('one'.repeat(11)), new EngineSecret('two'.repeat(11))];
  const request = { path: '/engine/v1/generate', session: 'session', count: 7, body: '{"a":1}' } as const;

  test('counts for one secret, path, session, number and body', () => {
    const header = sign(secret, request);
    expect(readSignature(secret, request.path, header)).toMatchObject({ session: 'session', count: 7 });
    expect(header).not.toContain('one');
    expect(readSignature(other, request.path, header)).toBeNull();
    expect(readSignature(secret, '/engine/v1/retire', header)).toBeNull();
    const [session, count, digest, code] = header.split('.');
    for (const wrong of [
      `x.${count}.${digest}.${code}`,
      `${session}.8.${digest}.${code}`,
      `${session}.${count}.${sign(secret, { ...request, body: '{}' }).split('.')[2]}.${code}`,
      `${session}.${count}.${digest}.${code}x`,
      `${session}.${count}.${digest}.`,
      `${header}.more`,
      '',
      '...',
    ])
      expect(readSignature(secret, request.path, wrong)).toBeNull();
  });

  test('parts do not run into each other', () => {
    expect(secret.codeOf('ab', 'c')).not.toBe(secret.codeOf('a', 'bc'));
  });

  test('a hello is answered only with the secret', () => {
    const random = 'r'.repeat(24);
    const engine = 'http://10.0.0.7:8420';
    expect(readHello(secret, engine, signHello(secret, engine, random))).toBe(random);
    expect(readHello(other, engine, signHello(secret, engine, random))).toBeNull();
    expect(readHello(secret, 'http://10.0.0.8:8420', signHello(secret, engine, random))).toBeNull();
    expect(readHello(secret, engine, signHello(secret, engine, 'short'))).toBeNull();
    const proof = proofOf(secret, random, 'session');
    expect(isProof(secret, proof, random, 'session')).toBe(true);
    expect(isProof(secret, proof, random, 'another')).toBe(false);
    expect(isProof(other, proof, random, 'session')).toBe(false);
  });
});

import { type AdapterVersion, EngineError, type TokenBackend } from '@trainyard/backend';
import { ScriptedTokenBackend } from '@trainyard/backend/testing';
import { TokenEngine } from '@trainyard/engine';
import {
  byteTokenizer,
  EmbeddedTokenBackend,
  mixedLogits,
  replying,
  ScriptedRunner,
  VOCAB_SIZE,
} from '@trainyard/engine/testing';
import { describe, expect, test } from 'vitest';
import { BackendTokens } from './backend-tokens.ts';
import { DigitConstraints } from './testing/digit-matcher.ts';
import { Harness, request, type RequestOptions, Transcript } from './testing/text-harness.ts';
import { TextEngine } from './text-engine.ts';

const LENGTH = 'hello'.length;

/** The engine as a back end that asks for text, or whose tokens are read here. */
function embedded(logits: typeof mixedLogits, asksText: boolean): TokenBackend {
  const runner = new ScriptedRunner({ vocabSize: VOCAB_SIZE, logits });
  const backend = new EmbeddedTokenBackend({
    modelId: 'scripted',
    engine: new TokenEngine({ runner, ends: byteTokenizer }),
  });
  return {
    specVersion: 1,
    capabilities: { ...backend.capabilities, asksText },
    models: backend.models,
    start: () => backend.start(),
    close: () => backend.close(),
    publish: (adapter) => backend.publish(adapter),
    retire: (digest) => backend.retire(digest),
    sample: (ids, params, signal) => backend.sample(ids, params, signal),
    score: (ids, params, signal) => backend.score(ids, params, signal),
    health: () => backend.health(),
  };
}

function textOver(backend: TokenBackend): TextEngine {
  const tokens = new BackendTokens(backend, byteTokenizer);
  return new TextEngine({ tokens, tokenizer: byteTokenizer, template: null, constraints: new DigitConstraints() });
}

/** Events of a request from an engine that is not stepped. */
async function answer(engine: TextEngine, options: RequestOptions): Promise<Transcript> {
  const transcript = new Transcript();
  const { promise, resolve } = Promise.withResolvers<void>();
  engine.submit(request(options), (event) => {
    transcript.receive(event);
    if (transcript.numEnds > 0) resolve();
  });
  await promise;
  return transcript;
}

const ASKED: Record<string, [string, RequestOptions]> = {
  'an end token': ['hi!', {}],
  'a stop string': ['one END two', { stop: ['END'], maxTokens: 20 }],
  'a stop string that is kept': ['one END two', { stop: ['END'], maxTokens: 20, includeStopString: true }],
  'a stop string that one choice of several finds': ['a', { n: 1, stop: ['zz', 'a'], maxTokens: 20 }],
  'a stop token': ['abc', { stopTokenIds: [98] }],
  'a stop string, and scores of the prompt': ['one END two', { stop: ['END'], maxTokens: 20, promptLogprobs: 1 }],
  'bad words': ['abcabc', { badWords: ['bc'], maxTokens: 6 }],
  logprobs: ['abc', { logprobs: 3, promptLogprobs: 2 }],
  'prompt logprobs first': ['abc', { promptLogprobs: 2, promptLogprobsFirst: true }],
  'half a character': ['€', { maxTokens: 2 }],
};

describe.each([
  ['asks for text', true],
  ['is read along', false],
])('text over a back end that %s', (_how, asksText) => {
  test.each(Object.entries(ASKED))(
    '%s: gives the same events as the engine itself',
    async (_what, [reply, options]) => {
      const logits = replying(reply, LENGTH);
      const harness = new Harness({ logits });
      const expected = harness.submit(options);
      harness.run();
      const given = await answer(textOver(embedded(logits, asksText)), options);
      expect(given.events).toEqual(expected.events);
    },
  );

  test.each<[string, RequestOptions]>([
    ['choices that are drawn', { n: 4, sampling: { temperature: 1, seed: 3n }, logprobs: 1, maxTokens: 12 }],
    [
      'choices that text ends one by one',
      { n: 4, sampling: { temperature: 1, seed: 5n }, stop: ['a', 'e', 'i', 'o', 'u'], maxTokens: 60 },
    ],
    ['a beam search', { n: 3, maxTokens: 5, beamSearch: { lengthPenalty: 1 } }],
    ['a trace', { sampling: { temperature: 0.7, seed: 1n }, tracesSampling: true, maxTokens: 5 }],
    ['a trace of plain draws', { sampling: { temperature: 1, seed: 1n }, tracesSampling: true, maxTokens: 5 }],
    ['a trace of greedy choices', { sampling: { topK: 3 }, tracesSampling: true, maxTokens: 5 }],
    [
      'traces that stop strings end, at fewer tokens than asked for at least',
      {
        n: 4,
        sampling: { temperature: 0.9, topK: 40, seed: 5n, logitBias: [[97, 200]] },
        tracesSampling: true,
        stop: ['a', 'e', 'i', 'o', 'u'],
        minTokens: 3,
        badWords: ['x'],
        maxTokens: 60,
        logprobs: 2,
      },
    ],
  ])('%s: are those of the engine itself', async (_what, options) => {
    const harness = new Harness();
    const expected = harness.submit(options);
    harness.run();
    const given = await answer(textOver(embedded(mixedLogits, asksText)), options);
    for (let index = 0; index < (options.n ?? 1); index++) {
      expect(given.text(index)).toBe(expected.text(index));
      expect(given.tokenIds(index)).toEqual(expected.tokenIds(index));
      expect(given.logprobs(index)).toEqual(expected.logprobs(index));
      expect(given.finished(index)).toEqual(expected.finished(index));
    }
    expect(given.completed?.usage).toEqual(expected.completed?.usage);
  });

  test('an abort ends it, and the back end hears of it', async () => {
    const backend = embedded(mixedLogits, asksText);
    const engine = textOver(backend);
    const transcript = new Transcript();
    const asked = request({ maxTokens: 3000, ignoreEos: true });
    engine.submit(asked, transcript.receive);
    await expect.poll(() => transcript.tokenIds().length).toBeGreaterThan(0);
    engine.abort(asked.requestId);
    await expect.poll(() => transcript.failed?.code).toBe('engine.aborted');
    await expect.poll(async () => (await backend.health()).stats?.numRequests).toBe(0);
    expect(engine.stats().numRequests).toBe(0);
  });

  test('an unread request is not read ahead', async () => {
    const backend = embedded(mixedLogits, asksText);
    const engine = textOver(backend);
    const transcript = new Transcript();
    const asked = request({ maxTokens: 3000, ignoreEos: true });
    engine.submit(asked, transcript.receive);
    engine.setPaused(asked.requestId, true);
    await expect.poll(async () => (await backend.health()).stats?.generatedTokens).toBeGreaterThan(200);
    const before = (await backend.health()).stats!.generatedTokens;
    expect(before).toBeLessThan(400);
    engine.setPaused(asked.requestId, false);
    await expect.poll(() => transcript.numEnds).toBe(1);
    expect(transcript.tokenIds()).toHaveLength(3000);
  });
});

test('a back end that asks for text holds replies to constraints; one that does not refuses them by name', async () => {
  const options = { constraint: { min: 2, max: 4 }, sampling: { temperature: 1, seed: 2n } };
  const held = await answer(textOver(embedded(mixedLogits, true)), options);
  expect(held.failed).toBeUndefined();
  expect(held.text()).toMatch(/^\d{2,4}$/);
  expect((await answer(textOver(embedded(mixedLogits, false)), options)).failed).toMatchObject({
    code: 'engine.invalid_request',
    param: 'constraint',
  });
});

test('a back end that enforces a kind of constraints gets their specs, if they hold from the start', async () => {
  const seen: unknown[] = [];
  const backend = new ScriptedTokenBackend(replying('42', LENGTH), ['digits']);
  const sample = backend.sample.bind(backend);
  backend.sample = (ids, params, signal) => {
    seen.push(params.constraint);
    return sample(ids, params, signal);
  };
  const engine = textOver(backend);
  const constraint = { kind: 'digits', min: 2, max: 4 };
  expect((await answer(engine, { constraint })).text()).toBe('42');
  expect(seen).toEqual([constraint]);
  const refused = expect.objectContaining({ param: 'constraint' });
  expect((await answer(engine, { constraint, constraintStartsAfter: 'x' })).failed).toEqual(refused);
  expect((await answer(engine, { constraint: { ...constraint, kind: 'others' } })).failed).toEqual(refused);
});

test('a back end that can do little serves text all the same', async () => {
  const engine = textOver(new ScriptedTokenBackend(replying('one END two', LENGTH)));
  const reply = await answer(engine, { stop: ['END'], maxTokens: 20, logprobs: 2 });
  expect(reply.text()).toBe('one ');
  expect(reply.finished()).toMatchObject({ finishReason: 'stop', stopReason: 'END' });
  expect(reply.logprobs()[0]).toMatchObject({ text: 'o', top: [{ text: 'o' }, {}] });
  expect(reply.completed?.usage.completionTokens).toBe('one END'.length);
  expect((await answer(engine, { badWords: ['x'] })).failed).toMatchObject({ param: 'badWords' });
});

describe('an adapter', () => {
  const adapter = { digest: 'a', path: '/adapters/a/adapter.gguf' };

  class ToldBackend extends ScriptedTokenBackend {
    readonly calls: string[] = [];
    failure: Error | null = null;

    constructor() {
      super(replying('abc', LENGTH));
    }

    override async publish(version: AdapterVersion): Promise<string | null> {
      this.calls.push('publish');
      if (this.failure !== null) throw this.failure;
      return await super.publish(version);
    }

    override async retire(digest: string): Promise<void> {
      this.calls.push('retire');
      await super.retire(digest);
    }

    override sample(...asked: Parameters<TokenBackend['sample']>): ReturnType<TokenBackend['sample']> {
      this.calls.push('sample');
      return super.sample(...asked);
    }
  }

  test('is published before the first request that names it, and retired after the last', async () => {
    const backend = new ToldBackend();
    const { calls } = backend;
    const engine = textOver(backend);
    const replies = await Promise.all([answer(engine, { adapter }), answer(engine, { adapter })]);
    for (const reply of replies) expect(reply.text()).toBe('abc');
    engine.retire(adapter.digest);
    await expect.poll(() => calls.length).toBe(4);
    expect(calls).toEqual(['publish', 'sample', 'sample', 'retire']);
    expect((await answer(engine, { adapter })).text()).toBe('abc');
    expect(calls.slice(4)).toEqual(['publish', 'sample']);
  });

  test('that cannot be published fails its waiters, and is tried again', async () => {
    const backend = new ToldBackend();
    backend.failure = new Error('the far disk is gone');
    const engine = textOver(backend);
    const failed = await Promise.all([answer(engine, { adapter }), answer(engine, { adapter })]);
    for (const reply of failed) {
      expect(reply.failed).toMatchObject({ code: 'engine.adapter_unreadable' });
      expect(reply.numEnds).toBe(1);
    }
    expect(backend.calls).toEqual(['publish']);
    backend.failure = null;
    expect((await answer(engine, { adapter })).text()).toBe('abc');
  });

  test('that is being published holds no request that gives up', async () => {
    const backend = new ScriptedTokenBackend(replying('abc', LENGTH));
    backend.publish = () => new Promise(() => {});
    const engine = textOver(backend);
    const transcript = new Transcript();
    const asked = request({ adapter });
    engine.submit(asked, transcript.receive);
    engine.abort(asked.requestId);
    await expect.poll(() => transcript.failed?.code).toBe('engine.aborted');
    expect(engine.stats().numRequests).toBe(0);
  });
});

describe('a back end that fails in the middle of a reply without saying why', () => {
  /** Gives these tokens, then fails. */
  function breaking(tokenIds: readonly number[]): TokenBackend {
    return Object.assign(embedded(mixedLogits, false), {
      async *sample(): ReturnType<TokenBackend['sample']> {
        yield { kind: 'started', cachedTokens: 0 } as const;
        for (const id of tokenIds) yield { kind: 'tokens', index: 0, tokenIds: [id], logprobs: null, finish: null };
        throw new EngineError('engine.internal', 'the far side broke');
      },
    });
  }
  const masks = { allowedTokenIds: [65, 66], badWords: ['AA', 'AB'] };
  const none = (numTokens: number): object => ({
    code: 'engine.no_token_left',
    message: `allowedTokenIds must leave a token that a reply can continue with after its first ${numTokens}, got none together with badWords`,
    param: 'allowedTokenIds',
  });

  test.each<[string, number[], RequestOptions, object]>([
    ['masks left none', [66, 65], masks, none(2)],
    ['masks left none, and it took one', [66, 65, 0], masks, none(2)],
    ['masks left one', [65, 66], { ...masks, badWords: ['AA'] }, { code: 'engine.internal', param: null }],
    ['there were no masks', [65, 66], {}, { code: 'engine.internal', param: null }],
  ])('%s', async (_what, tokenIds, options, failure) => {
    const { failed, numEnds } = await answer(textOver(breaking(tokenIds)), options);
    expect(failed).toMatchObject(failure);
    expect(numEnds).toBe(1);
  });
});

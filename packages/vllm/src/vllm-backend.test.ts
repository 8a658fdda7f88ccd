import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { SampleOutput } from '@trainyard/backend';
import { byteTokenizer } from '@trainyard/engine/testing';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { FakePool, PROMPT } from './testing/fake-pool.ts';
import { FakeVllm } from './testing/fake-vllm.ts';
import { openBrain } from './testing/open-brain.ts';
import { VllmBackend } from './vllm-backend.ts';

const LOAD = '/v1/load_lora_adapter';
const UNLOAD = '/v1/unload_lora_adapter';
const COMPLETIONS = '/v1/completions';
const BROKEN = {
  kind: 'answer',
  status: 500,
  body: JSON.stringify({ error: { message: 'CUDA error: out of memory', type: 'InternalServerError', code: 500 } }),
} as const;
const failing = (code: string) => expect.objectContaining({ code });

async function failureOf(asked: Promise<unknown>): Promise<Error> {
  return asked.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: Error) => error,
  );
}

describe('a request', () => {
  test('goes as token ids to the route that takes them, and no text comes of it', async () => {
    await using pool = await FakePool.start({ backend: { apiKey: 'secret' }, fake: { apiKey: 'secret' } });
    await pool.ids({ tenant: 'a', maxTokens: 3 });
    const [call] = pool.fake.samples;
    expect(call).toMatchObject({ path: COMPLETIONS, authorization: 'Bearer secret' });
    expect(call!.body).toMatchObject({
      model: 'base',
      prompt: PROMPT,
      max_tokens: 3,
      stream: true,
      return_token_ids: true,
    });
    expect(pool.fake.unknownFields).toEqual(new Set());
  });

  test('requests the scores of a prompt separately, before the sample, with the same salt', async () => {
    await using pool = await FakePool.start();
    const outputs: SampleOutput[] = [];
    const sampled = pool.sample({ promptLogprobs: 1, promptLogprobsFirst: true, maxTokens: 1 });
    for await (const output of sampled) outputs.push(output);
    expect(outputs.map(({ kind }) => kind)).toEqual(['started', 'prompt_scored', 'tokens']);
    const [first, second] = pool.fake.samples.map(({ body }) => body!);
    expect(first).toMatchObject({ prompt_logprobs: 1, max_tokens: 1, cache_salt: second!['cache_salt'] });
    expect(first).not.toHaveProperty('stream');
    expect(second).not.toHaveProperty('prompt_logprobs');
  });

  test('goes over the connection of the one before it', async () => {
    await using pool = await FakePool.start();
    await pool.ids({ maxTokens: 3 });
    const connects = vi.spyOn(Socket.prototype, 'connect');
    onTestFinished(() => connects.mockRestore());
    for (let count = 0; count < 10; count++) expect(await pool.ids({ maxTokens: 3 })).toHaveLength(3);
    // One may arrive while the answer before it ends.
    expect(connects.mock.calls.length).toBeLessThanOrEqual(2);
  });

  test('with a slow reader continues beyond the stall limit of a server', async () => {
    await using pool = await FakePool.start();
    pool.times.stallMs = 200;
    const tokenIds: number[] = [];
    // More than the connection buffers: the rest is read after the pause.
    for await (const output of pool.sample({ maxTokens: 3000 })) {
      if (output.kind !== 'tokens') continue;
      if (tokenIds.length === 0) await new Promise((resume) => setTimeout(resume, 600));
      tokenIds.push(...output.tokenIds);
    }
    expect(tokenIds).toHaveLength(3000);
    expect((await pool.members())[0]).toMatchObject({ state: 'up', numFailures: 0 });
  });

  test('of a process that was itself suspended beyond the stall limit continues', async () => {
    await using pool = await FakePool.start();
    pool.times.stallMs = 50;
    let numTokens = 0;
    for await (const output of pool.sample({ maxTokens: 3000 })) {
      if (output.kind !== 'tokens') continue;
      if (numTokens === 0) setImmediate(() => standStill(200));
      numTokens += output.tokenIds.length;
    }
    expect(numTokens).toBe(3000);
  });

  test('that is given up ends there, too', async () => {
    await using pool = await FakePool.start();
    for await (const output of pool.sample({ maxTokens: 200 })) if (output.kind === 'tokens') break;
    await expect.poll(() => pool.fake.numLeft).toBe(1);
    await expect.poll(() => pool.fake.numRunning).toBe(0);
    expect((await pool.members())[0]).toMatchObject({
      numChoices: 0,
      numRequests: 1,
      numFailures: 0,
      kvUse: 0.25,
    });
  });

  test.each([
    [
      400,
      { message: "This model's maximum context length is 5 tokens.", param: 'input_tokens' },
      'context_length_exceeded',
      'prompt',
    ],
    [400, { message: 'no such thing', param: 'top_p' }, 'engine.invalid_request', 'topP'],
    [500, { message: 'out of memory at /some/path' }, 'engine.internal', null],
    [429, { message: 'slow down' }, 'engine.overloaded', null],
    [401, { message: 'Unauthorized' }, 'engine.host_lost', null],
  ])('that is answered %i with %j fails as %s', async (status, error, code, param) => {
    await using pool = await FakePool.start();
    pool.fake.failNext(COMPLETIONS, { kind: 'answer', status, body: JSON.stringify({ error }) });
    const failure = await failureOf(pool.ids());
    expect(failure).toMatchObject({ code, param });
    expect(failure.message).not.toContain('127.0.0.1');
    expect(failure.message).not.toContain('/some/path');
  });
});

describe('a server that breaks', () => {
  test('in the middle of a stream is no end of a reply', async () => {
    await using pool = await FakePool.start({ numServers: 2 });
    for (const fake of pool.fakes) fake.failNext(COMPLETIONS, { kind: 'reset', afterEvents: 2 });
    const tokens: number[] = [];
    const reading = (async () => {
      for await (const output of pool.sample()) if (output.kind === 'tokens') tokens.push(...output.tokenIds);
    })();
    await expect(reading).rejects.toEqual(failing('engine.host_lost'));
    expect(tokens).toHaveLength(2);
    expect(pool.fakes.flatMap(({ samples }) => samples)).toHaveLength(1);
    // The next one is served: the server passed a check.
    expect(await pool.ids()).toHaveLength(8);
  });

  test('with an error in the stream', async () => {
    await using pool = await FakePool.start();
    pool.fake.failNext(COMPLETIONS, { kind: 'error_event', afterEvents: 1, message: 'EngineCore died at /some/path' });
    const failure = await failureOf(pool.ids());
    expect(failure).toEqual(failing('engine.internal'));
    expect(failure.message).not.toContain('/some/path');
  });

  test('a request refused in the stream is the fault of its client only', async () => {
    await using pool = await FakePool.start({ numServers: 2 });
    const home = await pool.homeOf(PROMPT);
    const numLooks = home.callsOf('/health').length;
    const refusal = { kind: 'error_event', afterEvents: 0, message: 'top_p is too odd', status: 400 } as const;
    home.failNext(COMPLETIONS, ...Array.from({ length: 4 }, () => refusal));
    for (let count = 0; count < 4; count++) {
      const failure = await failureOf(pool.ids());
      expect(failure).toMatchObject({ code: 'engine.invalid_request', message: expect.stringContaining('too odd') });
    }
    expect(pool.fakes.map((fake) => fake.samples.length).toSorted((a, b) => a - b)).toEqual([0, 5]);
    expect((await pool.members()).map(({ state, numFailures }) => [state, numFailures])).toEqual([
      ['up', 0],
      ['up', 0],
    ]);
    await expect.poll(() => home.callsOf('/health').length).toBeGreaterThan(numLooks);
    home.failNext(COMPLETIONS, { ...refusal, afterEvents: 1 });
    await expect(pool.ids()).rejects.toEqual(failing('engine.internal'));
  });

  test('a failure before the first byte is harmless: another server gets the request', async () => {
    await using pool = await FakePool.start({ numServers: 3 });
    const home = await pool.homeOf(PROMPT);
    const alone = await pool.ids();
    home.failNext(COMPLETIONS, { kind: 'reset', afterEvents: 0 });
    expect(await pool.ids()).toEqual(alone);
    await home.close();
    expect(await pool.ids()).toEqual(alone);
    expect(pool.fakes.filter((fake) => fake !== home && fake.samples.length > 0)).toHaveLength(1);
  });

  test('that takes no requests now is passed by, and is asked again when it does', async () => {
    await using pool = await FakePool.start({ numServers: 2, times: { healthEveryMs: 10 } });
    const home = await pool.homeOf(PROMPT);
    home.failNext(COMPLETIONS, { kind: 'answer', status: 503, body: '{}' });
    home.failNext('/health', ...Array.from({ length: 5 }, () => ({ kind: 'answer', status: 503, body: '' }) as const));
    const before = home.samples.length;
    expect(await pool.ids()).toHaveLength(8);
    await expect.poll(async () => (await pool.members()).every(({ state }) => state === 'up')).toBe(true);
    expect(home.samples).toHaveLength(before + 1);
    await pool.ids();
    expect(home.samples).toHaveLength(before + 2);
  });

  test('and may do so of the request itself is given it no third time', async () => {
    await using pool = await FakePool.start({ numServers: 4 });
    for (const fake of pool.fakes) fake.failNext(COMPLETIONS, { kind: 'reset', afterEvents: 0 });
    await expect(pool.ids()).rejects.toEqual(failing('engine.host_lost'));
    expect(pool.fakes.filter(({ samples }) => samples.length > 0)).toHaveLength(2);
  });

  test('a hanging server loses its requests, and is up again when it answers', async () => {
    await using pool = await FakePool.start({ times: { healthEveryMs: 10 } });
    pool.fake.failNext(COMPLETIONS, { kind: 'stall', afterEvents: 1 });
    const reading = pool.sample();
    for (let numOutputs = 0; numOutputs < 2; numOutputs++) await reading.next();
    pool.fake.failNext('/health', { kind: 'hang' }, { kind: 'hang' });
    pool.times.healthMs = 10;
    await expect(reading.next()).rejects.toEqual(failing('engine.host_lost'));
    pool.times.healthMs = 60_000;
    await expect.poll(async () => (await pool.backend.health()).problem).toBeNull();
    expect(await pool.ids()).toHaveLength(8);
    expect((await pool.members())[0]!.numLosses).toBeGreaterThan(0);
    expect(pool.log.some((line) => line.includes('did not respond to /health'))).toBe(true);
  });

  test('a silent but healthy server loses the request', async () => {
    await using pool = await FakePool.start();
    pool.fake.failNext(COMPLETIONS, { kind: 'stall', afterEvents: 1 });
    pool.times.stallMs = 30;
    await expect(pool.ids()).rejects.toEqual(failing('engine.host_lost'));
  });

  test('a healthy server with failing requests gets none until a probe succeeds, and no request fails', async () => {
    await using pool = await FakePool.start({ numServers: 2, times: { healthEveryMs: 10, probeAfterMs: 30 } });
    const home = await pool.homeOf(PROMPT);
    const other = pool.fakes.find((fake) => fake !== home)!;
    home.breakPath(COMPLETIONS, BROKEN);
    for (let count = 0; count < 12; count++) expect(await pool.ids()).toHaveLength(8);
    expect(home.samples.length, 'once before it broke, and three in a row').toBe(4);
    expect(other.samples).toHaveLength(12);
    const [broken] = (await pool.members()).filter(({ state }) => state === 'failing');
    expect(broken).toMatchObject({
      name: home.url,
      numFailures: 3,
      trouble: expect.stringMatching(/3 requests.*CUDA/),
    });
    expect((await pool.backend.health()).problem).toBeNull();
    home.breakPath(COMPLETIONS, null);
    await expect.poll(async () => (await pool.members()).every(({ state }) => state === 'up')).toBe(true);
    await pool.ids();
    expect(home.samples).toHaveLength(5);
  });

  test('after a successful probe a single failure takes it out again', async () => {
    await using pool = await FakePool.start({ numServers: 2, times: { healthEveryMs: 10, probeAfterMs: 1 } });
    const home = await pool.homeOf(PROMPT);
    const states = async () => (await pool.members()).map(({ state }) => state).toSorted();
    home.failNext(COMPLETIONS, BROKEN, BROKEN, BROKEN);
    for (let count = 0; count < 3; count++) await pool.ids();
    await expect.poll(states).toEqual(['up', 'up']);
    pool.times.probeAfterMs = 3_600_000;
    home.breakPath(COMPLETIONS, BROKEN);
    await pool.ids();
    expect(await states()).toEqual(['failing', 'up']);
  });

  test('the only server is still tried, and its fault reported', async () => {
    await using pool = await FakePool.start();
    pool.fake.breakPath(COMPLETIONS, BROKEN);
    for (let count = 0; count < 5; count++) await expect(pool.ids()).rejects.toEqual(failing('engine.internal'));
    expect((await pool.members())[0]).toMatchObject({ state: 'failing', numRequests: 5 });
    expect((await pool.backend.health()).problem, 'it is still given requests').toBeNull();
    await pool.backend.publish({ digest: 'one', directory: '/checkpoints/one' });
    expect(pool.fake.adapters.has('one')).toBe(true);
    pool.fake.breakPath(COMPLETIONS, null);
    expect(await pool.ids(), 'a successful request closes the breaker').toHaveLength(8);
    expect((await pool.members())[0]).toMatchObject({ state: 'up', trouble: null });
  });

  test('the error without any server has no address', async () => {
    await using pool = await FakePool.start();
    await pool.fake.close();
    const failure = await failureOf(pool.ids());
    expect(failure).toEqual(failing('engine.host_lost'));
    expect(failure.message).not.toContain('127.0.0.1');
    await expect.poll(async () => (await pool.backend.health()).problem).toMatch(/none of 1 vLLM servers/);
  });
});

describe('an answer that no vLLM gives', () => {
  type Choice = Record<string, unknown> & { token_ids: number[]; logprobs: Record<string, unknown[]> | null };
  const spoil = (change: (choice: Choice) => void) => (event: Record<string, unknown>) => {
    for (const choice of event['choices'] as Choice[]) change(choice);
    return event;
  };
  const ofLogprobs = (value: unknown) =>
    spoil(({ logprobs }) => (logprobs!['token_logprobs'] = logprobs!['token_logprobs']!.map(() => value)));

  test.each<[string, (event: Record<string, unknown>) => unknown, RegExp]>([
    ['NaN', ofLogprobs(null), /a log-probability is null \(NaN in JSON\)/],
    ['above 0', ofLogprobs(3), /a log-probability is 3, above 0/],
    [
      'NaN among the likeliest',
      spoil(({ logprobs }) => (logprobs!['top_logprobs'] = [{ 'token_id:5': null }])),
      /null \(NaN in JSON\)/,
    ],
    ['none', spoil((choice) => (choice.logprobs = null)), /logprobs is not an object/],
    [
      'of fewer tokens than there are',
      spoil((choice) => (choice.token_ids = [...choice.token_ids, 5])),
      /log-probabilities of 1 tokens, but 2 tokens/,
    ],
    ['a token beyond the vocabulary', spoil((choice) => (choice.token_ids = [1_000_000])), /token 1000000, but/],
    ['a choice that was not requested', spoil((choice) => (choice['index'] = 7)), /choice 7, but 1 were/],
    ['no JSON', () => '{"choices":[{"index":0,"logprobs":{"token_logprobs":[NaN]}}]}', /it is not JSON/],
  ])(
    '(%s) is never passed on: another server gets the request, and the failure is counted',
    async (_what, change, words) => {
      await using pool = await FakePool.start({ numServers: 2 });
      const home = await pool.homeOf(PROMPT);
      const right = await pool.ids({ logprobs: 2 });
      home.spoil = change;
      for (let count = 0; count < 4; count++) expect(await pool.ids({ logprobs: 2 })).toEqual(right);
      const [failed] = (await pool.members()).filter(({ name }) => name === home.url);
      expect(failed).toMatchObject({ state: 'failing', numFailures: 3, trouble: expect.stringMatching(words) });
    },
  );

  test('in the middle of a stream ends it with an error', async () => {
    await using pool = await FakePool.start({ numServers: 2 });
    const home = await pool.homeOf(PROMPT);
    let numEvents = 0;
    home.spoil = (event) => (++numEvents > 2 ? ofLogprobs(0.5)(event) : event);
    const logprobs: number[] = [];
    const reading = (async () => {
      for await (const output of pool.sample({ logprobs: 0 }))
        if (output.kind === 'tokens') logprobs.push(...output.logprobs!.map(({ logprob }) => logprob));
    })();
    await expect(reading).rejects.toEqual(failing('engine.internal'));
    expect(logprobs).toHaveLength(2);
    expect(Math.max(...logprobs)).toBeLessThanOrEqual(0);
  });

  test('scores of a prompt with a gap are an error', async () => {
    await using pool = await FakePool.start();
    pool.fake.failNext(COMPLETIONS, {
      kind: 'answer',
      status: 200,
      body: JSON.stringify({ choices: [{ prompt_logprobs: [null, ...PROMPT.slice(1).map(() => null)] }] }),
    });
    const score = { tenant: 't', cacheSalt: null, adapter: null, priority: 0, numTop: 0 };
    await expect(pool.backend.score(PROMPT, score, new AbortController().signal)).rejects.toEqual(
      failing('engine.internal'),
    );
  });
});

describe('other weights at the address of a server', () => {
  const OTHER_MODEL = 3;
  const states = async (pool: FakePool) => (await pool.members()).map(({ state }) => state).toSorted();

  test('are found when its process is another one, and it gets no request until then', async () => {
    await using pool = await FakePool.start({ numServers: 2, times: { healthEveryMs: 10 } });
    const home = await pool.homeOf(PROMPT);
    const right = await pool.ids();
    // Its next request comes before its next check.
    home.failNext(COMPLETIONS, BROKEN);
    home.brain = openBrain(OTHER_MODEL);
    home.startedAt += 60;
    expect(await pool.ids()).toEqual(right);
    await expect.poll(() => states(pool)).toEqual(['unfit', 'up']);
    const [changed] = (await pool.members()).filter(({ name }) => name === home.url);
    expect(changed!.trouble).toMatch(
      /has different weights than the pool: log-probabilities after 4 fixed prompts differ by/,
    );
    for (let count = 0; count < 5; count++) expect(await pool.ids()).toEqual(right);
    home.brain = openBrain();
    await expect.poll(() => states(pool)).toEqual(['up', 'up']);
  });

  test('are found by periodic comparison, without another sign, and running samples end', async () => {
    await using pool = await FakePool.start({ numServers: 2, times: { healthEveryMs: 10 } });
    const home = await pool.homeOf(PROMPT);
    const right = await pool.ids();
    const reading = pool.sample({ maxTokens: 3000 });
    for (let count = 0; count < 2; count++) await reading.next();
    const rest = (async () => {
      for await (const output of reading) void output;
    })();
    home.brain = openBrain(OTHER_MODEL);
    pool.times.compareEveryMs = 20;
    await expect(rest).rejects.toEqual(failing('engine.host_lost'));
    expect(await states(pool)).toEqual(['unfit', 'up']);
    expect(await pool.ids()).toEqual(right);
  });

  test.each(['raw', 'processed'] as const)('are not other sampling defaults of a server (%s)', async (logprobsMode) => {
    const truncating = { top_k: 20, top_p: 0.5, min_p: 0.1, repetition_penalty: 1.3 };
    const options = { brain: openBrain(), policy: 'fcfs', logprobsMode } as const;
    await using other = await FakeVllm.open({ ...options, generationConfig: truncating });
    await using pool = await FakePool.open({ fake: options });
    await using both = await FakePool.start({ fake: options, backend: { urls: [pool.fake.url, other.url] } });
    expect(await states(both)).toEqual(['up', 'up']);
  });

  test('are checked with scores only before a process gets requests', async () => {
    await using exact = await FakePool.start();
    const score = { tenant: 't', cacheSalt: null, adapter: null, priority: 0, numTop: 0 };
    const scores = await exact.backend.score(PROMPT, score, new AbortController().signal);
    const reference = { tokenIds: PROMPT, logprobs: scores.map((entries) => entries && entries[0]!.logprob) };
    await using pool = await FakePool.start({ backend: { reference }, times: { healthEveryMs: 10, probeAfterMs: 10 } });
    const numScored = () =>
      pool.fake.callsOf(COMPLETIONS).filter(({ body }) => body!['prompt_logprobs'] !== undefined).length;
    const comesUp = () => expect.poll(() => states(pool)).toEqual(['up']);
    pool.fake.failNext(COMPLETIONS, BROKEN, BROKEN, BROKEN);
    for (let count = 0; count < 3; count++) await failureOf(pool.ids());
    await comesUp();
    pool.fake.breakPath('/health', { kind: 'answer', status: 503, body: '' });
    await expect.poll(() => states(pool)).toEqual(['draining']);
    pool.fake.breakPath('/health', null);
    await comesUp();
    expect(numScored()).toBe(1);
    pool.fake.startedAt += 60;
    await expect.poll(numScored).toBe(2);
    await comesUp();
  });

  test('a comparison that fails otherwise counts as a failed request, and a slow one changes nothing', async () => {
    await using pool = await FakePool.start({ times: { healthEveryMs: 10 } });
    pool.times.compareEveryMs = 1;
    pool.times.computeMs = 300;
    const numCalls = pool.fake.callsOf(COMPLETIONS).length;
    const slow = Array.from({ length: 3 }, () => ({ kind: 'hang' }) as const);
    pool.fake.failNext(COMPLETIONS, BROKEN, ...slow);
    const numMore = () => pool.fake.callsOf(COMPLETIONS).length - numCalls;
    await expect.poll(numMore).toBeGreaterThan(4);
    expect((await pool.members())[0]!.numFailures).toBe(1);
    expect((await pool.members())[0]).toMatchObject({ state: 'up' });
    expect(await pool.ids()).toHaveLength(8);
  });
});

describe('a list of models that cannot be read', () => {
  const html = { kind: 'answer', status: 200, body: '<html>a proxy</html>' } as const;

  test.each(['<html>a proxy</html>', '{"data":[null]}', '{"data":7}'])('%s later is one failure', async (body) => {
    await using pool = await FakePool.start({ times: { healthEveryMs: 10 } });
    pool.fake.failNext('/v1/models', { ...html, body });
    pool.times.compareEveryMs = 1;
    await expect.poll(async () => (await pool.members())[0]!.numFailures).toBe(1);
    expect(await pool.ids()).toHaveLength(8);
    expect((await pool.members())[0]).toMatchObject({ state: 'up', numFailures: 1 });
  });

  test('a server that comes up is reported, and checked again', async () => {
    await using pool = await FakePool.open({ numServers: 3, times: { healthEveryMs: 10 } });
    // The first list is the probe's, the second that of its adapters.
    const right = await (await fetch(`${pool.fake.url}/v1/models`)).text();
    pool.fakes[1]!.failNext('/v1/models', { ...html, body: '{"data":[null]}' });
    pool.fakes[0]!.failNext('/v1/models', { ...html, body: right }, html);
    await pool.backend.start();
    await expect.poll(async () => (await pool.members()).every(({ state }) => state === 'up')).toBe(true);
    expect(pool.log.join()).toMatch(/does not respond like vLLM/);
  });
});

describe('adapters', () => {
  const adapter = (digest: string) => ({ digest, directory: `/checkpoints/${digest}` });

  test('are loaded under their digests on every server before a request names them, and never in place', async () => {
    await using pool = await FakePool.start({ numServers: 2 });
    await pool.backend.publish(adapter('one'));
    for (const fake of pool.fakes) {
      expect(fake.callsOf(LOAD).at(-1)!.body).toEqual({ lora_name: 'one', lora_path: '/checkpoints/one' });
      expect(fake.adapters.has('one')).toBe(true);
    }
    await pool.ids({ adapter: 'one' });
    expect(pool.fakes.flatMap(({ samples }) => samples)[0]!.body).toMatchObject({ model: 'one' });
    await pool.backend.retire('one');
    for (const fake of pool.fakes) expect(fake.callsOf(UNLOAD).map(({ body }) => body)).toEqual([{ lora_name: 'one' }]);
  });

  test('of a restarted server are loaded again, and the request is repeated', async () => {
    await using pool = await FakePool.start();
    await pool.backend.publish(adapter('one'));
    const before = await pool.ids({ adapter: 'one' });
    pool.fake.adapters.clear();
    expect(await pool.ids({ adapter: 'one' })).toEqual(before);
    const missing = JSON.stringify({ error: { message: 'The model `one` does not exist.', type: 'NotFoundError' } });
    pool.fake.failNext(COMPLETIONS, ...[1, 2].map(() => ({ kind: 'answer', status: 404, body: missing }) as const));
    await expect(pool.ids({ adapter: 'one' })).rejects.toEqual(failing('engine.adapter_unreadable'));
  });

  test('beyond the limit, the least recently used idle one is unloaded', async () => {
    await using pool = await FakePool.start({ backend: { maxAdapters: 2 } });
    const names = (): string[] => [...pool.fake.adapters.keys()].toSorted();
    for (const digest of ['one', 'two']) await pool.backend.publish(adapter(digest));
    await pool.ids({ adapter: 'one' });
    // One that no request has used is replaced first.
    await pool.backend.publish(adapter('three'));
    await expect.poll(names).toEqual(['one', 'three']);
    const reading = pool.sample({ adapter: 'one', maxTokens: 200 });
    await reading.next();
    const other = pool.sample({ adapter: 'three', maxTokens: 200 });
    await other.next();
    await pool.ids({ adapter: 'two' });
    expect(names()).toEqual(['one', 'three', 'two']);
    for (const open of [reading, other]) await open.return({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 });
  });

  test('are available without the one of several servers that is still suspended', async () => {
    await using pool = await FakePool.start({
      numServers: 2,
      times: { healthEveryMs: 10, healthMs: 500, loadMs: 3_600_000 },
    });
    const home = await pool.homeOf(PROMPT);
    for (const path of [LOAD, '/health']) home.breakPath(path, { kind: 'hang' });
    expect(await pool.backend.publish(adapter('one'))).toBeNull();
    expect(await pool.ids({ adapter: 'one' })).toHaveLength(8);
    expect((await pool.members()).map(({ state }) => state).toSorted()).toEqual(['down', 'up']);
  });

  test('are loaded ahead on a server above its limit only after as many are unloaded', async () => {
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'] });
    await using pool = await FakePool.start({ backend: { maxAdapters: 2 } });
    const names = (): string[] => [...pool.fake.adapters.keys()].toSorted();
    for (const digest of ['one', 'two', 'three']) await pool.backend.publish(adapter(digest));
    const readings = ['one', 'two', 'three'].map((digest) => pool.sample({ adapter: digest, maxTokens: 200 }));
    for (const reading of readings) await reading.next();
    expect(names()).toEqual(['one', 'three', 'two']);
    for (const one of readings) await one.return({ promptTokens: 0, completionTokens: 0, cachedTokens: 0 });
    vi.setSystemTime(Date.now() + 60_000);
    for (const digest of ['one', 'two']) await pool.ids({ adapter: digest });
    await pool.backend.publish(adapter('four'));
    expect(names()).toEqual(['one', 'three', 'two']);
    vi.setSystemTime(Date.now() + 60_000);
    await pool.ids({ adapter: 'one' });
    await pool.backend.publish(adapter('four'));
    await expect.poll(names).toEqual(['four', 'one']);
  });

  test('are loaded from the newest folder of their digest, and stay if none is up to load it', async () => {
    await using pool = await FakePool.start({ times: { healthEveryMs: 10, healthMs: 500 } });
    await pool.backend.publish(adapter('one'));
    await pool.backend.publish({ digest: 'one', directory: '/checkpoints/newer' });
    pool.fake.adapters.clear();
    expect(await pool.ids({ adapter: 'one' })).toHaveLength(8);
    expect([...pool.fake.adapters.values()]).toEqual(['/checkpoints/newer']);
    pool.fake.breakPath('/health', BROKEN);
    await expect.poll(async () => (await pool.members())[0]!.state).toBe('down');
    await expect(pool.backend.publish({ digest: 'one', directory: '/checkpoints/newest' })).rejects.toEqual(
      failing('engine.host_lost'),
    );
    pool.fake.breakPath('/health', null);
    await expect.poll(async () => (await pool.members())[0]!.state).toBe('up');
    expect(await pool.ids({ adapter: 'one' })).toHaveLength(8);
  });

  test('are loaded ahead only in place of those without a request for a minute', async () => {
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'] });
    await using pool = await FakePool.start({ backend: { maxAdapters: 2 } });
    const names = (): string[] => [...pool.fake.adapters.keys()].toSorted();
    for (const digest of ['one', 'two']) {
      await pool.backend.publish(adapter(digest));
      await pool.ids({ adapter: digest });
    }
    expect(await pool.backend.publish(adapter('three'))).toBeNull();
    expect(names()).toEqual(['one', 'two']);
    vi.setSystemTime(Date.now() + 60_000);
    await pool.ids({ adapter: 'one' });
    await pool.backend.publish(adapter('four'));
    await expect.poll(names).toEqual(['four', 'one']);
    // Its first request loads the one that was not loaded ahead.
    await pool.ids({ adapter: 'three' });
    await expect.poll(names).toEqual(['one', 'three']);
  });

  test('refused by a server are not requested again for a minute, which its state reports', async () => {
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'] });
    await using pool = await FakePool.start({ numServers: 2 });
    const message = 'LoRA rank 64 is greater than max_lora_rank 16.';
    const refused = { kind: 'answer', status: 500, body: JSON.stringify({ error: { message } }) } as const;
    const home = await pool.homeOf(PROMPT, { adapter: null });
    home.breakPath(LOAD, refused);
    expect(await pool.backend.publish(adapter('one'))).toMatch(/^1 of 2 vLLM servers/);
    const numLoads = () => home.callsOf(LOAD).filter(({ body }) => body!['lora_name'] === 'one').length;
    for (let count = 0; count < 8; count++)
      await pool.ids({ adapter: 'one' }, [...PROMPT, ...Buffer.from(`question ${count}`)]);
    expect(numLoads()).toBe(1);
    const [member] = (await pool.members()).filter(({ name }) => name === home.url);
    expect(member).toMatchObject({
      adapters: [],
      refused: [
        {
          digest: 'one',
          reason: expect.stringMatching(/^rank 64 .* higher --max-lora-rank$/),
          until: Date.now() + 60_000,
        },
      ],
    });
    vi.setSystemTime(Date.now() + 60_000);
    home.breakPath(LOAD, null);
    expect(await pool.backend.publish(adapter('one'))).toBeNull();
    expect(numLoads()).toBe(2);
    expect((await pool.members()).flatMap(({ refused: found = [] }) => found)).toEqual([]);
  });

  test('that the server has by the same digest are the same', async () => {
    await using pool = await FakePool.start();
    pool.fake.adapters.set('one', '/elsewhere');
    await pool.backend.publish(adapter('one'));
    expect((await pool.members())[0]).toMatchObject({ numAdapters: 1 });
  });

  test.each([
    [404, 'NotFoundError', 'No adapter found for /checkpoints/one', /cannot see the folder.*--vllm-adapter-dir/],
    [500, 'InternalServerError', 'LoRA rank 64 is greater than max_lora_rank 16.', /rank 64.*higher --max-lora-rank/],
    [500, 'InternalServerError', 'LoRA is not enabled.', /without --enable-lora/],
    [500, 'InternalServerError', 'Traceback /checkpoints/one', /refused the files; see its log/],
  ])('that cannot be loaded (%i %s %s) are reported with the remedy', async (status, type, message, expected) => {
    await using pool = await FakePool.start();
    pool.fake.failNext(LOAD, { kind: 'answer', status, body: JSON.stringify({ error: { message, type } }) });
    const failure = await failureOf(pool.backend.publish(adapter('one')));
    expect(failure).toMatchObject({ code: 'engine.adapter_unreadable', message: expect.stringMatching(expected) });
    expect(failure.message).not.toContain('/checkpoints');
  });

  test('that one server of several does not take are sampled from the others, and its reason is reported', async () => {
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'] });
    const later = () => vi.setSystemTime(Date.now() + 60_000);
    await using pool = await FakePool.start({ numServers: 2 });
    const status = { kind: 'answer', status: 500 } as const;
    const message = 'LoRA rank 64 is greater than max_lora_rank 16.';
    const refused = { ...status, body: JSON.stringify({ error: { message } }) };
    for (const fake of pool.fakes) fake.failNext(LOAD, refused);
    const failure = await failureOf(pool.backend.publish(adapter('one')));
    expect(failure.message).toMatch(/rank 64 is greater than max_lora_rank 16: start it with a higher/);
    expect(pool.fakes.map(({ adapters }) => adapters.size)).toEqual([0, 0]);
    later();
    pool.fakes[1]!.failNext(LOAD, refused);
    const reason = await pool.backend.publish(adapter('one'));
    expect(reason).toMatch(/^1 of 2 vLLM servers: .*rank 64 is greater than max_lora_rank 16: start it with a higher/);
    expect(pool.fakes.map(({ adapters }) => adapters.size)).toEqual([1, 0]);
    expect(pool.fakes.flatMap((fake) => fake.callsOf(UNLOAD))).toEqual([]);
    expect(await pool.ids({ adapter: 'one' })).toHaveLength(8);
    later();
    expect(await pool.backend.publish(adapter('one'))).toBeNull();
    expect(pool.fakes.map(({ adapters }) => adapters.size)).toEqual([1, 1]);
    // A restarted one that refuses it now: the other has it.
    const home = await pool.homeOf(PROMPT, { adapter: 'one' });
    home.adapters.clear();
    home.breakPath(LOAD, { ...status, body: JSON.stringify({ error: { message } }) });
    expect(await pool.ids({ adapter: 'one' })).toHaveLength(8);
    expect((await pool.members()).map(({ state }) => state)).toEqual(['up', 'up']);
  });

  test('may have the rank that the servers allow, found with an adapter that none accepts', async () => {
    const probeDirectory = await mkdtemp(join(tmpdir(), 'trainyard-vllm-'));
    const rankOf = async (options: Parameters<typeof FakePool.open>[0]): Promise<unknown> => {
      await using pool = await FakePool.start(options);
      expect(pool.fake.adapters.size).toBe(0);
      return pool.backend.models[0]!.maxLoraRank;
    };
    expect(await rankOf({ fake: { maxLoraRank: 8 }, backend: { probeDirectory } })).toBe(8);
    expect(await rankOf({ fake: { maxLoraRank: 8 }, backend: { probeDirectory, maxLoraRank: 4 } })).toBe(4);
    expect(await rankOf({ fake: { maxLoraRank: 2e6 }, backend: { probeDirectory } })).toBeNull();
    expect(await rankOf({ fake: { loadsAdapters: false }, backend: { probeDirectory } })).toBeNull();
    expect(
      await rankOf({ backend: { probeDirectory, adapterDirectory: probeDirectory, adapterPath: '/no' } }),
    ).toBeNull();
    expect(await rankOf({})).toBeNull();
    expect(await readdir(probeDirectory)).toEqual([]);
    await rm(probeDirectory, { recursive: true });
  });

  test('that an earlier life of the service left on a server are known, and go when they are retired', async () => {
    const digest = 'a'.repeat(64);
    await using pool = await FakePool.open({ times: { healthEveryMs: 10 } });
    pool.fake.adapters.set(digest, '/checkpoints/a');
    pool.fake.adapters.set('their own', '/elsewhere');
    await pool.backend.start();
    expect((await pool.members())[0]).toMatchObject({
      numAdapters: 1,
      adapters: [{ digest, since: expect.any(Number) }],
    });
    await pool.backend.retire(digest);
    expect([...pool.fake.adapters.keys()]).toEqual(['their own']);
    // Losses without a restart are detected, too.
    await pool.backend.publish(adapter('b'.repeat(64)));
    expect((await pool.members())[0]).toMatchObject({ numAdapters: 1 });
    pool.fake.adapters.clear();
    pool.times.compareEveryMs = 10;
    await expect.poll(async () => (await pool.members())[0]!.numAdapters).toBe(0);
  });

  test('name the model that the servers were started with, so that those find them by themselves', async () => {
    const [checkpoint, shared] = await Promise.all([1, 2].map(() => mkdtemp(join(tmpdir(), 'trainyard-vllm-'))));
    await writeFile(join(checkpoint!, 'adapter_config.json'), '{"r": 8, "base_model_name_or_path": null}');
    await writeFile(join(checkpoint!, 'adapter_model.safetensors'), 'weights');
    await using pool = await FakePool.start({
      fake: { model: 'theirs', root: '/models/theirs' },
      backend: { adapterDirectory: shared! },
    });
    for (let count = 0; count < 2; count++) {
      await pool.backend.publish({ digest: 'one', directory: checkpoint! });
      const config = await readFile(join(shared!, 'one', 'adapter_config.json'), 'utf8');
      expect(JSON.parse(config)).toEqual({ r: 8, base_model_name_or_path: '/models/theirs' });
    }
    for (const folder of [checkpoint!, shared!]) await rm(folder, { recursive: true });
  });

  test("are placed in the servers' folder, each complete, and removed with their version", async () => {
    const [checkpoint, shared] = await Promise.all([1, 2].map(() => mkdtemp(join(tmpdir(), 'trainyard-vllm-'))));
    for (const name of ['adapter_config.json', 'adapter_model.safetensors', 'optimizer.bin'])
      await writeFile(join(checkpoint!, name), name);
    await using pool = await FakePool.start({ backend: { adapterDirectory: shared!, adapterPath: '/theirs' } });
    await pool.backend.publish({ digest: 'one', directory: checkpoint! });
    expect([...pool.fake.adapters.values()]).toEqual(['/theirs/one']);
    expect((await readdir(join(shared!, 'one'))).toSorted()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
    ]);
    await pool.backend.retire('one');
    expect(await readdir(shared!)).toEqual([]);
    // A copy of another process, damaged since.
    await mkdir(join(shared!, 'one'));
    await writeFile(join(shared!, 'one', 'adapter_config.json'), 'adapter_config.json');
    await writeFile(join(shared!, 'one', 'adapter_model.safetensors'), 'Adapter_model.safetensors');
    await pool.backend.publish({ digest: 'one', directory: checkpoint! });
    expect(await readFile(join(shared!, 'one', 'adapter_model.safetensors'), 'utf8')).toBe('adapter_model.safetensors');
    await pool.backend.retire('one');
    await expect(pool.backend.publish({ digest: 'two', directory: '/nowhere' })).rejects.toEqual(
      failing('engine.adapter_unreadable'),
    );
    expect(await readdir(shared!)).toEqual([]);
    for (const folder of [checkpoint!, shared!]) await rm(folder, { recursive: true });
  });
});

describe('at the start', () => {
  const startOf = async (options: Parameters<typeof FakePool.open>[0]): Promise<string> => {
    await using pool = await FakePool.open(options);
    return (await failureOf(pool.backend.start())).message;
  };

  test.each<[string, Parameters<typeof FakePool.open>[0], RegExp]>([
    [
      'no URL',
      { backend: { urls: ['http://127.0.0.1:1/v1'] } },
      /cannot be reached \(ECONNREFUSED\): start vLLM there, or correct/,
    ],
    ['a wrong key', { fake: { apiKey: 'right' }, backend: { apiKey: 'wrong' } }, /answered 401.*--vllm-key.*--api-key/],
    [
      'a version without token ids',
      { fake: { version: '0.9.2' } },
      /is vLLM 0\.9\.2, but 0\.10\.2 is the oldest.*upgrade/,
    ],
    [
      'logits',
      { fake: { logprobsMode: 'logits' } },
      /returns logits instead of log-probabilities: start it with --logprobs-mode/,
    ],
    ['another name', { backend: { model: 'other' } }, /does not serve other \(it has: base\): correct --vllm-model/],
    ['another scheduling', { fake: { policy: 'priority' } }, /schedules by priority.*set it to priority/],
    [
      'another model',
      { backend: { reference: { tokenIds: PROMPT, logprobs: PROMPT.map((_, at) => (at === 0 ? null : -30)) } } },
      /serves a different model than the file.*17 fixed tokens differ by \d+ nats on average \(at most 0\.5\)/,
    ],
  ])('%s is reported in one line, with the remedy', async (_what, options, expected) => {
    const message = await startOf(options);
    expect(message).toMatch(expected);
    expect(message).not.toContain('\n');
    expect(message).not.toContain('right');
  });

  test('a server that hangs', async () => {
    await using pool = await FakePool.open({ times: { healthMs: 30 } });
    pool.fake.failNext('/health', { kind: 'hang' });
    const { message } = await failureOf(pool.backend.start());
    expect(message).toMatch(/did not respond to \/health within 30 ms: it may still be loading/);
  });

  test('a server that hangs at the scores that it is compared by', async () => {
    const brain = openBrain();
    const sample = brain.sample.bind(brain);
    brain.sample = async function* (ids, params, signal) {
      if (params.promptLogprobs !== null) await new Promise(() => {});
      return yield* sample(ids, params, signal);
    };
    await using pool = await FakePool.open({
      fake: { brain },
      backend: { reference: { tokenIds: PROMPT, logprobs: PROMPT.map(() => -1) } },
    });
    pool.times.computeMs = 3_000;
    const { message } = await failureOf(pool.backend.start());
    expect(message).toMatch(/did not respond to \/v1\/completions within 3000 ms: it may still be loading, or hang/);
  });

  test('not a vLLM server', async () => {
    const missing = { kind: 'answer', status: 404, body: '<html>not here</html>' } as const;
    await using pool = await FakePool.open();
    for (const path of ['/health', '/v1/models', '/version']) pool.fake.failNext(path, missing);
    expect((await failureOf(pool.backend.start())).message).toMatch(/answered 404.*it may not be a vLLM server/);
  });

  test('one healthy server is enough, and the faults of the others are reported', async () => {
    await using pool = await FakePool.open({ numServers: 2 });
    pool.fakes[1]!.failNext('/version', { kind: 'answer', status: 200, body: '{"version":"0.1.0"}' });
    await pool.backend.start();
    expect((await pool.backend.health()).problem).toBeNull();
    expect((await pool.members()).map(({ state }) => state)).toEqual(['up', 'unfit']);
    expect(pool.log.join()).toMatch(/vLLM: http:\/\/127\.0\.0\.1:\d+ is vLLM 0\.1\.0/);
  });

  test('servers that are not alike are not used together', async () => {
    await using small = await FakeVllm.open({ brain: openBrain(), policy: 'fcfs', maxLogprobs: 5 });
    await using pool = await FakePool.open();
    const urls = [pool.fake.url, small.url];
    const log: string[] = [];
    const backend = new VllmBackend({
      urls,
      modelId: 'm',
      ends: byteTokenizer,
      maxRequests: 9,
      log: (line) => void log.push(line),
    });
    await backend.start();
    expect((await backend.health()).members!.map(({ state }) => state).toSorted()).toEqual(['unfit', 'up']);
    expect(log.join()).toMatch(/differs from the other servers of the pool \(maxLogprobs (5, not 20|20, not 5)\)/);
    await backend.close();
  });

  test.each(['ftp://host', 'host:80', 'http://user:pass@host', 'http://host/?a=b'])('%s is no address', (url) => {
    const open = () =>
      new VllmBackend({ urls: [url], modelId: 'm', ends: byteTokenizer, maxRequests: 1, log: () => {} });
    expect(open).toThrow(/is not the URL of a server/);
  });

  test('the same model with other numerics is logged', async () => {
    await using exact = await FakePool.start();
    const score = { tenant: 't', cacheSalt: null, adapter: null, priority: 0, numTop: 0 };
    const scores = await exact.backend.score(PROMPT, score, new AbortController().signal);
    const logprobs = scores.map((entries) => entries && entries[0]!.logprob - 0.1);
    await using pool = await FakePool.start({ backend: { reference: { tokenIds: PROMPT, logprobs } } });
    expect(pool.log.join()).toMatch(
      /17 fixed tokens differ by 0\.10 nats on average: its weights have another precision/,
    );
  });
});

describe('a pool', () => {
  const prompts = Array.from({ length: 40 }, (_, at) => [...Buffer.from(`prompt ${at} `.repeat(8))]);

  test('sends requests with a common prefix to one server, and others to all', async () => {
    await using pool = await FakePool.start({ numServers: 3 });
    for (const prompt of prompts) await pool.ids({ maxTokens: 1 }, prompt);
    const counts = pool.fakes.map(({ samples }) => samples.length);
    expect(Math.min(...counts)).toBeGreaterThan(4);
    const homes = (): number[] => pool.fakes.map(({ samples }) => samples.length);
    const before = homes();
    const [prompt] = prompts;
    for (let turn = 0; turn < 5; turn++)
      await pool.ids({ maxTokens: 1 }, [...prompt!, ...Buffer.from('more '.repeat(turn))]);
    expect(
      homes()
        .map((count, at) => count - before[at]!)
        .toSorted((a, b) => a - b),
    ).toEqual([0, 0, 5]);
  });

  test('reports the state of each server', async () => {
    await using pool = await FakePool.start({ numServers: 2 });
    await pool.ids({ n: 2, sampling: { temperature: 1 } });
    const members = await pool.members();
    expect(members.map(({ name }) => name)).toEqual(pool.fakes.map(({ url }) => url));
    expect(members.map(({ numTokens }) => numTokens).toSorted((a, b) => a - b)).toEqual([0, 16]);
    expect(members[0]).toMatchObject({ version: '0.32.0', state: 'up', numChoices: 0 });
  });
});

function standStill(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

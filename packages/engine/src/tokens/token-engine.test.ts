import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileSums, SUMS_FILE } from '@trainyard/transformer';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Harness, request, type RequestOptions } from '../testing/token-harness.ts';
import { EOS, mixedLogits, replying, SECOND_END, VOCAB_SIZE } from '../testing/scripted-logits.ts';
import { KvFullError } from '../runner/model-runner.ts';

const PROMPT = 'hello'; // 5 tokens

describe('a request', () => {
  test('starts, streams its tokens, finishes its choice and completes', () => {
    const harness = new Harness({ logits: replying('hi!', PROMPT.length) });
    const reply = harness.submit({ prompt: PROMPT });
    harness.run();
    expect(reply.events.map(({ kind }) => kind)).toEqual([
      'started',
      'delta',
      'delta',
      'delta',
      'finished',
      'completed',
    ]);
    expect(reply.started).toEqual({ kind: 'started', promptTokenIds: [...Buffer.from(PROMPT)], cachedTokens: 0 });
    expect(reply.text()).toBe('hi!');
    expect(reply.tokenIds()).toEqual([...Buffer.from('hi!'), EOS]);
    expect(reply.finished()).toMatchObject({ text: '', tokenIds: [EOS], finishReason: 'stop', stopReason: null });
    expect(reply.completed?.usage).toEqual({ promptTokens: 5, completionTokens: 4, cachedTokens: 0 });
  });

  test('ends by length when maxTokens are sampled; an end token on the last place still counts as stop', () => {
    const harness = new Harness({ logits: replying('abc', PROMPT.length) });
    const short = harness.submit({ prompt: PROMPT, maxTokens: 3 });
    const exact = harness.submit({ prompt: PROMPT, maxTokens: 4 });
    harness.run();
    expect(short.finished()).toMatchObject({ finishReason: 'length', stopReason: null });
    expect(short.text()).toBe('abc');
    expect(exact.finished()).toMatchObject({ finishReason: 'stop', stopReason: null });
  });

  test('without maxTokens fills the context; a larger one than fits is clamped', () => {
    const harness = new Harness({ logits: replying('x'.repeat(99), PROMPT.length), contextLength: 20 });
    const open = harness.submit({ prompt: PROMPT, maxTokens: null });
    const large = harness.submit({ prompt: PROMPT, maxTokens: 1000 });
    harness.run();
    for (const reply of [open, large]) {
      expect(reply.tokenIds()).toHaveLength(15);
      expect(reply.finished()?.finishReason).toBe('length');
    }
  });

  test('n choices are numbered, sampled apart and end together; completion tokens are summed', () => {
    const harness = new Harness();
    const reply = harness.submit({ n: 4, sampling: { temperature: 1 } });
    harness.run();
    const choices = [0, 1, 2, 3].map((index) => reply.tokenIds(index));
    expect(new Set(choices.map(String)).size).toBe(4);
    expect(reply.completed?.usage.completionTokens).toBe(choices.flat().length);
    expect(reply.events.at(-1)?.kind).toBe('completed');
  });

  test('choice i of seed s is the single choice of seed s + i, and an equal request gives equal tokens', () => {
    const sampling = { temperature: 1.3, topP: 0.9, seed: 70n };
    const harness = new Harness();
    const four = harness.submit({ n: 4, sampling, maxTokens: 20 });
    const again = harness.submit({ n: 4, sampling, maxTokens: 20 });
    harness.run();
    for (const index of [0, 1, 2, 3]) {
      const alone = new Harness();
      const one = alone.submit({ sampling: { ...sampling, seed: 70n + BigInt(index) }, maxTokens: 20 });
      alone.run();
      expect(four.tokenIds(index)).toEqual(one.tokenIds());
      expect(again.tokenIds(index)).toEqual(one.tokenIds());
    }
  });

  test('logprobs come for every token and the end token, with its bytes and exactly k entries, the sampled one first', () => {
    const harness = new Harness({
      logits: (tokens, _path, row) => {
        row.fill(-Infinity);
        row[65] = Math.log(0.5);
        row[66] = Math.log(0.3);
        row[EOS] = Math.log(0.2);
        if (tokens.length > PROMPT.length) row[EOS] = 40;
      },
    });
    // The bias forces the second best, so that the list must leave out one of the two best.
    const reply = harness.submit({ logprobs: 2, sampling: { logitBias: [[EOS, 1.2]] } });
    const none = harness.submit({ logprobs: 0 });
    harness.run();
    const [entry] = reply.events.flatMap((event) => (event.kind === 'finished' ? event.logprobs : []));
    expect(entry).toMatchObject({ id: EOS, text: '<|im_end|>', bytes: [...Buffer.from('<|im_end|>')] });
    expect(entry!.logprob).toBeCloseTo(Math.log(0.2), 6); // raw: without the bias
    expect(entry!.top.map(({ id }) => id)).toEqual([EOS, 65]);
    expect(entry!.top[1]!.logprob).toBeCloseTo(Math.log(0.5), 6);
    const plain = none.events.flatMap((event) =>
      event.kind === 'delta' || event.kind === 'finished' ? event.logprobs : [],
    );
    expect(plain.map((item) => [item!.id, item!.top])).toEqual([
      [65, []],
      [EOS, []],
    ]);
  });
});

test('logprobs -1 lists the whole vocabulary, the sampled token first; processed ones are after temperature and masks', () => {
  const harness = new Harness();
  const sampling = { temperature: 2, topK: 5, seed: 3n };
  const raw = harness.submit({ logprobs: -1, sampling, maxTokens: 1 });
  const processed = harness.submit({ logprobs: -1, logprobsMode: 'processed', sampling, maxTokens: 1 });
  harness.run();
  const [entry] = raw.logprobs();
  const [after] = processed.logprobs();
  expect(entry!.top[0]!.id).toBe(entry!.id);
  expect(new Set(entry!.top.map(({ id }) => id)).size).toBe(VOCAB_SIZE);
  const mass = (top: typeof entry): number => top!.top.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0);
  expect(mass(entry)).toBeCloseTo(1, 6);
  expect(after!.id).toBe(entry!.id);
  expect(mass(after)).toBeCloseTo(1, 6);
  expect(after!.top.filter(({ logprob }) => logprob > -9999)).toHaveLength(5);
  const gap = (top: typeof entry): number => {
    const [first, second] = top!.top.map(({ logprob }) => logprob).toSorted((a, b) => b - a);
    return first! - second!;
  };
  expect(gap(after)).toBeCloseTo(gap(entry) / 2, 5);
});

describe('stops', () => {
  test('a secondary end token and a requested stop token give their id as the reason; their text is left out', () => {
    const second = new Harness({ logits: replying([65, SECOND_END], PROMPT.length) });
    const reply = second.submit();
    second.run();
    expect(reply.finished()).toMatchObject({ finishReason: 'stop', stopReason: SECOND_END, tokenIds: [SECOND_END] });
    const byId = new Harness({ logits: replying('abc', PROMPT.length) });
    const stopped = byId.submit({ stopTokenIds: [98] });
    byId.run();
    expect(stopped.text()).toBe('a');
    expect(stopped.finished()).toMatchObject({ stopReason: 98, tokenIds: [98] });
  });

  test('ignoreEos samples on, but explicit stop ids still stop', () => {
    const harness = new Harness({ logits: replying([EOS, SECOND_END, 65, EOS], PROMPT.length) });
    const open = harness.submit({ ignoreEos: true, maxTokens: 6 });
    const explicit = harness.submit({ ignoreEos: true, stopTokenIds: [SECOND_END] });
    harness.run();
    expect(open.tokenIds()).toHaveLength(6);
    expect(open.text()).toBe('A');
    expect(explicit.finished()).toMatchObject({ stopReason: SECOND_END });
  });

  test('minTokens masks the end tokens until then', () => {
    const harness = new Harness({ logits: replying('', PROMPT.length) });
    const reply = harness.submit({ minTokens: 3, logprobs: 0 });
    harness.run();
    expect(reply.tokenIds()).toHaveLength(4);
    expect(reply.tokenIds().slice(0, 3)).not.toContain(EOS);
    expect(reply.finished()?.stopReason).toBeNull();
  });

  test('minTokens masks them under ignoreEos, too', () => {
    const harness = new Harness({ logits: replying([EOS, SECOND_END, EOS, EOS, SECOND_END], PROMPT.length) });
    const reply = harness.submit({ ignoreEos: true, minTokens: 3, maxTokens: 5 });
    harness.run();
    expect(reply.tokenIds().slice(0, 3)).not.toContain(EOS);
    expect(reply.tokenIds().slice(0, 3)).not.toContain(SECOND_END);
    expect(reply.tokenIds().slice(3)).toEqual([EOS, SECOND_END]);
  });
});

describe('prefix sharing', () => {
  const prompt = 'p'.repeat(50) + 'q'.repeat(50);

  test('n = 8 costs one prefill: the other choices compute the last prompt token only', () => {
    const harness = new Harness();
    const reply = harness.submit({ prompt, n: 8, maxTokens: 1, sampling: { temperature: 1 } });
    harness.run();
    expect(harness.runner.numComputedTokens).toBe(100 + 7);
    expect(reply.completed?.usage).toEqual({ promptTokens: 100, completionTokens: 8, cachedTokens: 0 });
  });

  test('8 equal requests at once cost one prefill, in chunks or not', () => {
    for (const prefillTokens of [512, 30]) {
      const harness = new Harness({ limits: { prefillTokens } });
      const replies = Array.from({ length: 8 }, () => harness.submit({ prompt, maxTokens: 1 }));
      harness.run();
      expect(harness.runner.numComputedTokens).toBe(100 + 7);
      expect(replies.map((reply) => reply.completed?.usage.cachedTokens)).toEqual([0, 99, 99, 99, 99, 99, 99, 99]);
    }
  });

  test('a finished sequence stays: its prompt and its reply are found by the next turn', () => {
    const harness = new Harness({ logits: replying('reply', prompt.length) });
    const first = harness.submit({ prompt });
    harness.run();
    const next = harness.submit({ prompt: `${prompt}reply and more`, maxTokens: 1 });
    harness.run();
    expect(first.text()).toBe('reply');
    expect(next.started?.cachedTokens).toBe(105);
    expect(harness.engine.stats()).toMatchObject({ prefixHitTokens: 105, prefixQueryTokens: 100 + 114 });
  });

  test('tenant, salt and adapter keep caches apart', () => {
    const harness = new Harness();
    const submit = (options: object): number => {
      const reply = harness.submit({ prompt, maxTokens: 1, ...options });
      harness.run();
      return reply.started!.cachedTokens;
    };
    expect(submit({})).toBe(0);
    expect(submit({ tenant: 'other' })).toBe(0);
    expect(submit({ cacheSalt: 'salt' })).toBe(0);
    expect(submit({ adapter: { digest: 'd', path: 'a' } })).toBe(0);
    expect(submit({})).toBe(99);
    expect(submit({ tenant: 'other' })).toBe(99);
    expect(submit({ cacheSalt: 'salt' })).toBe(99);
    expect(submit({ adapter: { digest: 'd', path: 'moved' } })).toBe(99);
  });

  test('cached cells stay within their limit, least recently used leaving first', () => {
    const harness = new Harness({ limits: { maxCachedTokens: 150 }, logits: replying('', 50) });
    const prompts = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(50));
    const cachedOf = (text: string): number => {
      const reply = harness.submit({ prompt: text, maxTokens: 1 });
      harness.run();
      return reply.started!.cachedTokens;
    };
    for (const text of prompts.slice(0, 3)) cachedOf(text);
    expect(cachedOf(prompts[0]!)).toBe(49); // a is now younger than b
    expect(cachedOf(prompts[3]!)).toBe(0); // evicts b
    expect(cachedOf(prompts[0]!)).toBe(49);
    expect(cachedOf(prompts[2]!)).toBe(49);
    expect(cachedOf(prompts[1]!)).toBe(0);
    expect(harness.engine.stats().cachedTokens).toBeLessThanOrEqual(150);
  });

  test('with every slot taken by cache entries a new request evicts one', () => {
    const harness = new Harness({ maxSequences: 2, logits: replying('', 20) });
    for (const letter of ['a', 'b', 'c', 'd']) harness.submit({ prompt: letter.repeat(20), maxTokens: 1 });
    harness.run();
    const only = new Harness({ maxSequences: 1 });
    for (let i = 0; i < 3; i++) only.submit({ prompt, maxTokens: 2 });
    only.run();
    expect(only.engine.stats().numRequests).toBe(0);
  });
});

describe('batching', () => {
  test('while streams decode a long prompt comes in small chunks, and every stream gets a token in each step', () => {
    const harness = new Harness({
      limits: { prefillTokens: 100, prefillTokensWhileDecoding: 20 },
      logits: replying('z'.repeat(999), 5),
    });
    const stream = harness.submit({ prompt: PROMPT, maxTokens: 40 });
    harness.step();
    const long = harness.submit({ prompt: 'l'.repeat(200), maxTokens: 1 });
    const before = stream.tokenIds().length;
    for (let i = 1; i <= 10; i++) {
      harness.step();
      expect(stream.tokenIds()).toHaveLength(before + i);
      expect(harness.runner.batchSizes.at(-1)).toBe(21);
    }
    expect(long.finished()).toBeDefined();
    const alone = new Harness({ limits: { prefillTokens: 100 } });
    alone.submit({ prompt: 'l'.repeat(200), maxTokens: 1 });
    alone.run();
    expect(alone.runner.batchSizes).toEqual([100, 100]);
  });

  test('a batch has one adapter; groups take turns', () => {
    const harness = new Harness({ logits: replying('z'.repeat(99), 5) });
    const adapter = (name: string): { digest: string; path: string } => ({ digest: name, path: name });
    for (let i = 0; i < 5; i++) harness.submit({ adapter: adapter('a'), maxTokens: 10 });
    harness.submit({ adapter: adapter('b'), maxTokens: 10 });
    harness.submit({ maxTokens: 10 });
    harness.run();
    const turns = harness.runner.adaptersOfBatch.slice(0, 27).flat();
    for (let i = 3; i < 27; i++) expect(turns[i]).toBe(turns[i - 3]);
    expect(new Set(turns)).toEqual(new Set(['a', 'b', null]));
  });

  test('lower priority numbers are admitted first, then earlier arrivals', () => {
    const harness = new Harness({ limits: { maxRunning: 1 } });
    const order: string[] = [];
    for (const [requestId, priority] of [
      ['late', 5],
      ['first', -1],
      ['second', -1],
      ['third', 0],
    ] as const) {
      harness.submitTo(request({ requestId, priority, maxTokens: 2, prompt: requestId }), (event) => {
        if (event.kind === 'completed') order.push(requestId);
      });
    }
    harness.run();
    expect(order).toEqual(['first', 'second', 'third', 'late']);
  });
});

describe('priority', () => {
  const urgent = { prompt: 'urgent', priority: -1, maxTokens: 4, ignoreEos: true };

  test('an urgent request takes slots and cells from the least urgent, which resumes later with the same result', () => {
    const options = { maxTokens: 25, ignoreEos: true, sampling: { temperature: 1, seed: 4n } };
    for (const sizes of [{ limits: { maxRunning: 2 } }, { capacityTokens: 64 }]) {
      const harness = new Harness(sizes);
      const calm = harness.submit({ prompt: 'a'.repeat(15), priority: 1, ...options });
      const calmer = harness.submit({ prompt: 'b'.repeat(15), priority: 2, ...options });
      for (let i = 0; i < 3; i++) harness.step();
      const before = [calm, calmer].map((reply) => reply.tokenIds().length);
      const reply = harness.submit({ ...urgent, prompt: 'u'.repeat(20) });
      while (!reply.completed) harness.step();
      const after = [calm, calmer].map((other) => other.tokenIds().length);
      expect(after[0]).toBeGreaterThan(before[0]!);
      expect(after[1]).toBe(before[1]);
      harness.run();
      const alone = new Harness();
      const twin = alone.submit({ prompt: 'b'.repeat(15), ...options });
      alone.run();
      expect(calmer.tokenIds()).toEqual(twin.tokenIds());
    }
  });

  test('equal priorities never take from each other at admission', () => {
    const harness = new Harness({ limits: { maxRunning: 1 } });
    harness.submit({ maxTokens: 10, ignoreEos: true });
    harness.step();
    harness.submit({ prompt: 'second', maxTokens: 2 });
    harness.run();
    expect(harness.engine.stats().numPreemptions).toBe(0);
  });

  test('fcfs serves in order of arrival and refuses another priority than 0 by name', () => {
    const harness = new Harness({ policy: 'fcfs', limits: { maxRunning: 1 } });
    expect(harness.submit(urgent).failed).toMatchObject({ code: 'engine.invalid_request', param: 'priority' });
    expect(harness.submit({ ...urgent, beamSearch: { lengthPenalty: 1 } }).failed).toBeUndefined();
    expect(harness.submit({ priority: 0 }).failed).toBeUndefined();
  });
});

describe('memory', () => {
  test('a preempted sequence keeps its sampled tokens and resumes with the same random numbers', () => {
    const options = { maxTokens: 30, sampling: { temperature: 1, seed: 3n }, ignoreEos: true };
    const prompts = ['a'.repeat(10), 'b'.repeat(10), 'c'.repeat(10)];
    const harness = new Harness({ capacityTokens: 64 });
    const replies = prompts.map((prompt) => harness.submit({ prompt, ...options }));
    harness.run();
    expect(harness.engine.stats().numPreemptions).toBeGreaterThan(0);
    for (const [i, prompt] of prompts.entries()) {
      const alone = new Harness();
      const twin = alone.submit({ prompt, ...options });
      alone.run();
      expect(replies[i]!.tokenIds()).toEqual(twin.tokenIds());
      expect(replies[i]!.text()).toBe(twin.text());
    }
  });

  test('the youngest gives way, not the oldest', () => {
    const harness = new Harness({ capacityTokens: 64 });
    const [old, , young] = ['a', 'b', 'c'].map((letter) =>
      harness.submit({ prompt: letter.repeat(10), maxTokens: 30, ignoreEos: true }),
    );
    harness.run();
    const ends = [old!, young!].map((reply) => reply.events.length);
    expect(ends).toEqual([32, 32]);
    expect(harness.engine.stats().numPreemptions).toBeGreaterThan(0);
  });

  test('a runner that is short of cells against the books costs a retry, no token', () => {
    const harness = new Harness();
    let numRefusals = 0;
    harness.runner.beforeRun = (batch) => {
      const numSequences = new Set(batch.sequences.subarray(0, batch.length)).size;
      if (numSequences > 1 && numRefusals < 3) {
        numRefusals++;
        throw new KvFullError('scripted');
      }
    };
    const replies = ['aa', 'bb', 'cc'].map((prompt) => harness.submit({ prompt, maxTokens: 5, ignoreEos: true }));
    harness.run();
    expect(numRefusals).toBe(3);
    expect(replies.map((reply) => [reply.numEnds, reply.tokenIds().length])).toEqual([
      [1, 5],
      [1, 5],
      [1, 5],
    ]);
  });

  test('an unread stream gives its cells up when nothing else can run', () => {
    const harness = new Harness({ capacityTokens: 64 });
    const slow = harness.submit({ prompt: 's'.repeat(50), maxTokens: 10, ignoreEos: true });
    harness.step();
    harness.engine.setPaused(slow.id, true);
    expect(harness.engine.hasWork).toBe(false);
    const quick = harness.submit({ prompt: 'q'.repeat(40), maxTokens: 3, ignoreEos: true });
    harness.run();
    expect(quick.completed).toBeDefined();
    expect(slow.tokenIds()).toHaveLength(1);
    harness.engine.setPaused(slow.id, false);
    harness.run();
    expect(slow.tokenIds()).toHaveLength(10);
  });
});

describe('failures', () => {
  test('a prompt that leaves no room is refused with limit and value', () => {
    const harness = new Harness({ contextLength: 20 });
    const reply = harness.submit({ prompt: 'x'.repeat(20) });
    expect(reply.failed).toMatchObject({ code: 'context_length_exceeded', param: 'prompt' });
    expect(reply.failed?.message).toMatch(/20 input tokens.*at most 19/);
    expect(harness.submit({ prompt: 'x'.repeat(19) }).failed).toBeUndefined();
  });

  test('more requests than the limit are refused with limit and value', () => {
    const harness = new Harness({ limits: { maxRequests: 2 } });
    harness.submit();
    harness.submit();
    expect(harness.submit().failed).toMatchObject({
      code: 'engine.overloaded',
      message: expect.stringContaining('at most 2'),
    });
  });

  test.each<[string, object]>([
    ['n', { n: 0 }],
    ['temperature', { sampling: { temperature: NaN } }],
    ['topP', { sampling: { topP: 0 } }],
    ['topK', { sampling: { topK: -1 } }],
    ['minP', { sampling: { minP: 1.1 } }],
    ['repetitionPenalty', { sampling: { repetitionPenalty: 0 } }],
    ['logitBias', { sampling: { logitBias: [[VOCAB_SIZE, 1]] } }],
    ['maxTokens', { maxTokens: 0 }],
    ['minTokens', { minTokens: -1 }],
    ['stopTokenIds', { stopTokenIds: [-1] }],
    ['logprobs', { logprobs: VOCAB_SIZE + 1 }],
    ['prompt', { prompt: [] }],
    ['prompt', { prompt: [VOCAB_SIZE] }],
  ])('%s out of range is refused by name', (param, options) => {
    expect(new Harness().submit(options).failed).toMatchObject({ code: 'engine.invalid_request', param });
  });

  test('an aborted request ends at the next step with all its choices, others continue', () => {
    const harness = new Harness();
    const aborted = harness.submit({ n: 3, sampling: { temperature: 1 }, ignoreEos: true });
    const other = harness.submit({ ignoreEos: true });
    const queued = harness.submit({ prompt: 'queued' });
    harness.step();
    harness.engine.abort(aborted.id);
    harness.engine.abort(queued.id);
    harness.engine.abort('unknown');
    harness.step();
    expect(aborted.failed?.code).toBe('engine.aborted');
    expect(queued.failed?.code).toBe('engine.aborted');
    harness.run();
    expect(other.completed).toBeDefined();
    expect([aborted, other, queued].map(({ numEnds }) => numEnds)).toEqual([1, 1, 1]);
  });

  test('a batch the model cannot compute fails its requests and no other', () => {
    const harness = new Harness();
    const bad = harness.submit({ adapter: { digest: 'bad', path: 'bad' } });
    const good = harness.submit({});
    harness.runner.beforeRun = (batch) => {
      if (batch.adapters.some((adapter) => adapter !== null)) throw new Error('scripted failure');
    };
    harness.run();
    expect(bad.failed).toMatchObject({ code: 'engine.internal', message: expect.stringContaining('scripted failure') });
    expect(good.completed).toBeDefined();
  });

  test('an adapter that cannot be read fails its request; idle ones are dropped by size, used ones never', () => {
    const harness = new Harness({ adapterBytes: { a: 60, b: 60, c: 60 }, limits: { maxAdapterBytes: 100 } });
    const ref = (path: string): { digest: string; path: string } => ({ digest: path, path });
    const missing = harness.submit({ adapter: ref('missing'), n: 2, sampling: { temperature: 1 } });
    const long = harness.submit({ adapter: ref('a'), maxTokens: 30, ignoreEos: true });
    harness.step();
    expect(missing.failed?.code).toBe('engine.adapter_unreadable');
    const second = harness.submit({ adapter: ref('b'), maxTokens: 2 });
    harness.step();
    expect([...harness.runner.openAdapters]).toEqual(['a', 'b']);
    harness.run();
    expect([long, second].map(({ numEnds }) => numEnds)).toEqual([1, 1]);
    expect(harness.engine.stats()).toMatchObject({ numAdapters: 1, adapterBytes: 60 });
    harness.submit({ adapter: ref('c'), maxTokens: 2 });
    harness.run();
    expect([...harness.runner.openAdapters]).toEqual(['c']);
  });

  test('an adapter with a changed file fails only its own request at loading', () => {
    const directory = mkdtempSync(join(tmpdir(), 'trainyard-adapter-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const path = join(directory, 'adapter.gguf');
    const write = (content: string) => writeFileSync(path, content);
    write('as written');
    writeFileSync(join(directory, SUMS_FILE), fileSums(directory));
    const harness = new Harness();
    const ask = (digest: string) => {
      const reply = harness.submit({ adapter: { digest, path }, maxTokens: 1 });
      const other = harness.submit({ maxTokens: 1 });
      harness.run();
      expect(other.completed).toBeDefined();
      return reply;
    };
    write('As written');
    expect(ask('one').failed).toMatchObject({
      code: 'engine.adapter_damaged',
      message: expect.stringMatching(/^adapter\.gguf is damaged: its SHA-256 is /),
    });
    write('');
    expect(ask('one').failed?.code).toBe('engine.adapter_damaged');
    write('as written');
    expect(ask('one').completed).toBeDefined();
    rmSync(join(directory, SUMS_FILE));
    expect(ask('of an earlier release').completed).toBeDefined();
  });

  test('a retired adapter is dropped when nothing uses it, and read again at its next use', () => {
    const harness = new Harness();
    const ref = (path: string): { digest: string; path: string } => ({ digest: path, path });
    const long = harness.submit({ adapter: ref('a'), maxTokens: 30, ignoreEos: true });
    harness.submit({ adapter: ref('b'), maxTokens: 1 });
    harness.submit({ adapter: ref('c'), maxTokens: 1 });
    for (let i = 0; i < 9; i++) harness.step();
    for (const digest of ['a', 'b', 'never loaded']) harness.engine.retire(digest);
    expect([...harness.runner.openAdapters]).toEqual(['a', 'c']);
    harness.run();
    expect(long.finished()?.tokenIds).toHaveLength(1);
    expect([...harness.runner.openAdapters]).toEqual(['c']);
    harness.submit({ adapter: ref('a'), maxTokens: 1 });
    harness.run();
    expect([...harness.runner.openAdapters]).toEqual(['c', 'a']);
    harness.submit({ adapter: ref('c'), maxTokens: 5 });
    harness.step();
    harness.engine.retire('c');
    harness.submit({ adapter: ref('c'), maxTokens: 1 });
    harness.run();
    expect([...harness.runner.openAdapters]).toEqual(['c', 'a']);
  });

  test('logits that are no numbers fail the request they belong to', () => {
    const harness = new Harness({
      logits: (tokens, path, row) => (tokens[0] === 98 ? void row.fill(NaN) : mixedLogits(tokens, path, row)),
    });
    const bad = harness.submit({ prompt: 'bb', n: 3, sampling: { temperature: 1 } });
    const good = harness.submit({ prompt: 'aa', n: 3, sampling: { temperature: 1 } });
    harness.run();
    expect(bad.failed?.code).toBe('engine.internal');
    expect(good.completed).toBeDefined();
  });

  test.each<[string, number, number, RequestOptions]>([
    ['infinite', Infinity, 0, {}],
    ['infinite', Infinity, 1, {}],
    ['infinite, masked', Infinity, 0, { allowedTokenIds: [66, 67], logprobs: 1 }],
    ['infinite, masked', Infinity, 1, { allowedTokenIds: [66, 67], logprobs: 1 }],
    ['no number, masked', NaN, 1, { allowedTokenIds: [66, 67], logprobs: 0 }],
  ])('a logit that is %s (%d) fails the request at temperature %d: %j', (_, logit, temperature, options) => {
    const harness = new Harness({
      logits: (_tokens, _path, row) => {
        row.fill(0);
        row[65] = logit;
      },
    });
    const reply = harness.submit({ ...options, sampling: { temperature }, maxTokens: 2 });
    harness.run();
    expect(reply.failed).toMatchObject({
      code: 'engine.internal',
      message: 'no token can be sampled: the logits are not numbers',
    });
  });

  test('a receiver that throws loses only its own request', () => {
    const harness = new Harness();
    const good = harness.submit({ ignoreEos: true });
    harness.submitTo(request({ requestId: 'broken' }), () => {
      throw new Error('gone');
    });
    harness.run();
    expect(good.completed).toBeDefined();
    expect(harness.engine.stats().numRequests).toBe(0);
  });

  test('close aborts the requests in flight', () => {
    const harness = new Harness();
    const reply = harness.submit({});
    harness.step();
    harness.engine.close();
    expect(reply.failed?.code).toBe('engine.aborted');
  });
});

import { describe, expect, test } from 'vitest';
import { Harness } from '../testing/token-harness.ts';
import { mixedLogits, VOCAB_SIZE } from '../testing/scripted-logits.ts';
import type { PromptLogprob } from '@trainyard/backend';
import type { LogitsScript } from '../testing/scripted-runner.ts';

const PROMPT = [...Buffer.from('a prompt of some length')];

/** Reference by definition: full sorts in float64. `top` includes the actual token if it ranks. */
function plainEntries(
  script: LogitsScript,
  prompt: readonly number[],
  numTop: number,
): ({ id: number; rank: number; logprob: number }[] | null)[] {
  return prompt.map((actual, position) => {
    if (position === 0) return null;
    const row = new Float32Array(VOCAB_SIZE);
    script(prompt.slice(0, position), null, row);
    const total = Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0));
    const describeToken = (id: number, rank: number): { id: number; rank: number; logprob: number } => ({
      id,
      rank,
      logprob: Math.max(row[id]! - total, -9999),
    });
    const best = Array.from(row, (_, id) => id)
      .sort((a, b) => row[b]! - row[a]! || a - b)
      .slice(0, numTop);
    return [
      describeToken(actual, row.filter((x) => x >= row[actual]!).length),
      ...best.map((id, i) => describeToken(id, i + 1)).filter(({ id }) => id !== actual),
    ];
  });
}

function differenceTo(expected: ReturnType<typeof plainEntries>, given: (PromptLogprob[] | null)[]): number {
  expect(given.map((entry) => entry?.map(({ id, rank }) => [id, rank]) ?? null)).toEqual(
    expected.map((entry) => entry?.map(({ id, rank }) => [id, rank]) ?? null),
  );
  const pairs = given.flatMap((entry, i) => entry?.map(({ logprob }, j) => logprob - expected[i]![j]!.logprob) ?? []);
  return Math.max(...pairs.map(Math.abs));
}

describe('prompt logprobs', () => {
  test.each([0, 3, -1])('%i: the actual token with its rank first, then the likeliest, in any chunks', (numTop) => {
    const expected = plainEntries(mixedLogits, PROMPT, numTop === -1 ? VOCAB_SIZE : numTop);
    for (const limits of [{}, { promptLogprobRows: 1 }, { prefillTokens: 5, promptLogprobRows: 3 }]) {
      const harness = new Harness({ limits });
      const reply = harness.submit({ prompt: PROMPT, promptLogprobs: numTop, maxTokens: 2 });
      harness.run();
      const given = reply.completed!.promptLogprobs!;
      expect(given).toHaveLength(PROMPT.length);
      expect(given[0]).toBeNull();
      const largest = differenceTo(expected, given);
      console.log(`prompt logprobs ${numTop}: largest difference ${largest.toExponential(1)}`);
      expect(largest).toBeLessThan(1e-6); // logits are float32
    }
  });

  test('entries carry true bytes and text, ties inflate the rank, and the floor is -9999', () => {
    const script: LogitsScript = (_tokens, _path, row) => {
      row.fill(-Infinity);
      row[97] = row[98] = row[99] = 1;
    };
    const harness = new Harness({ logits: script });
    const reply = harness.submit({ prompt: 'xaz', promptLogprobs: 2, maxTokens: 1 });
    harness.run();
    const third = -Math.log(3);
    expect(reply.completed!.promptLogprobs).toEqual([
      null,
      [
        { id: 97, logprob: expect.closeTo(third, 6), bytes: [97], text: 'a', rank: 3 },
        { id: 98, logprob: expect.closeTo(third, 6), bytes: [98], text: 'b', rank: 2 },
      ],
      [
        { id: 122, logprob: -9999, bytes: [122], text: 'z', rank: VOCAB_SIZE },
        expect.objectContaining({ id: 97, rank: 1 }),
        expect.objectContaining({ id: 98, rank: 2 }),
      ],
    ]);
  });

  test('the prompt is computed whole, despite the cache and running requests, and once for n choices', () => {
    const harness = new Harness();
    harness.submit({ prompt: PROMPT, maxTokens: 1 });
    harness.run();
    const running = harness.submit({ prompt: PROMPT, maxTokens: 20, ignoreEos: true });
    harness.step();
    const before = harness.runner.numComputedTokens;
    const reply = harness.submit({
      prompt: PROMPT,
      promptLogprobs: 0,
      n: 3,
      maxTokens: 1,
      sampling: { temperature: 1 },
    });
    const numRunning = running.tokenIds().length;
    while (!reply.completed) harness.step();
    expect(reply.started?.cachedTokens).toBe(0);
    expect(harness.runner.numComputedTokens - before).toBe(PROMPT.length + 2 + running.tokenIds().length - numRunning);
    harness.run();
    // Its computed cells are available to others.
    const next = harness.submit({ prompt: PROMPT, maxTokens: 1 });
    harness.run();
    expect(next.started?.cachedTokens).toBe(PROMPT.length - 1);
  });

  test('are those of the model under any other parameters, and absent unless requested', () => {
    const harness = new Harness();
    const plain = harness.submit({ prompt: PROMPT, promptLogprobs: 2 });
    const busy = harness.submit({
      prompt: PROMPT,
      promptLogprobs: 2,
      logprobs: 0,
      logprobsMode: 'processed',
      sampling: { temperature: 2, topK: 3, logitBias: [[97, 50]], seed: 1n },
    });
    const none = harness.submit({ prompt: PROMPT });
    harness.run();
    expect(busy.completed!.promptLogprobs).toEqual(plain.completed!.promptLogprobs);
    expect(none.completed).not.toHaveProperty('promptLogprobs');
  });

  test('a preempted request resumes at its position: no row is read twice', () => {
    const harness = new Harness({ capacityTokens: 64, limits: { promptLogprobRows: 4 } });
    const prompt = [...Buffer.from('p'.repeat(40))];
    const old = harness.submit({ prompt: 'old', maxTokens: 40, ignoreEos: true });
    const reply = harness.submit({ prompt, promptLogprobs: 1, maxTokens: 10, ignoreEos: true });
    for (let i = 0; i < 3; i++) harness.step();
    const urgent = harness.submit({ prompt: 'u'.repeat(40), priority: -1, maxTokens: 5, ignoreEos: true });
    harness.run();
    expect(harness.engine.stats().numPreemptions).toBeGreaterThan(0);
    expect([old, urgent].map(({ completed }) => completed !== undefined)).toEqual([true, true]);
    differenceTo(plainEntries(mixedLogits, prompt, 1), reply.completed!.promptLogprobs!);
  });

  test('come before every output if they are wanted first, also of choices that overtake the one that scores', () => {
    const harness = new Harness({ limits: { promptLogprobRows: 2 } });
    harness.submit({ prompt: PROMPT, maxTokens: 1 });
    harness.run();
    const options = { prompt: PROMPT, promptLogprobs: 1, n: 3, maxTokens: 3, sampling: { temperature: 1 } };
    const first = harness.submit({ ...options, promptLogprobsFirst: true });
    // The others share the cached prompt, and sample before the first choice has computed it.
    for (let i = 0; i < 5; i++) harness.step();
    expect(harness.engine.stats().generatedTokens).toBeGreaterThan(1);
    expect(first.events.map(({ kind }) => kind)).toEqual(['started']);
    harness.run();
    const last = harness.submit(options);
    harness.run();
    expect(first.events[1]).toEqual({
      kind: 'prompt_scored',
      first: { id: PROMPT[0], bytes: [PROMPT[0]], text: 'a' },
      promptLogprobs: last.completed!.promptLogprobs,
    });
    expect(first.events.filter(({ kind }) => kind === 'prompt_scored')).toHaveLength(1);
    expect(first.completed).not.toHaveProperty('promptLogprobs');
    expect([0, 1, 2].map((index) => first.tokenIds(index))).toEqual([0, 1, 2].map((index) => last.tokenIds(index)));
  });

  test('of a single token are there at once', () => {
    const harness = new Harness();
    const reply = harness.submit({ prompt: 'a', promptLogprobs: 3, promptLogprobsFirst: true, maxTokens: 1 });
    harness.run();
    expect(reply.events.map(({ kind }) => kind)).toEqual(['started', 'prompt_scored', 'finished', 'completed']);
    expect(reply.events[1]).toMatchObject({ first: { id: 97, text: 'a' }, promptLogprobs: [null] });
  });

  test('a step holds a bounded number of rows', () => {
    const harness = new Harness({ limits: { promptLogprobRows: 7 } });
    let most = 0;
    harness.runner.beforeRun = (batch) => void (most = Math.max(most, batch.numLogits));
    harness.submit({ prompt: 'x'.repeat(200), promptLogprobs: 0, maxTokens: 1 });
    harness.run();
    expect(most).toBe(7);
  });

  test('more entries than an answer can hold are refused with limit and value; nonsense too', () => {
    const harness = new Harness({ contextLength: 4096 + 10, capacityTokens: 5000 });
    const refused = harness.submit({ prompt: 'x'.repeat(4100), promptLogprobs: -1 });
    expect(refused.failed).toMatchObject({ code: 'engine.invalid_request', param: 'promptLogprobs' });
    expect(refused.failed?.message).toMatch(/1048576 entries.*4100/);
    expect(harness.submit({ promptLogprobs: -2 }).failed?.param).toBe('promptLogprobs');
    expect(harness.submit({ promptLogprobs: 0.5 }).failed?.param).toBe('promptLogprobs');
  });

  test('logits that are no numbers fail their request', () => {
    const harness = new Harness({ logits: (_tokens, _path, row) => void row.fill(NaN) });
    const reply = harness.submit({ prompt: PROMPT, promptLogprobs: 0 });
    harness.run();
    expect(reply.failed?.code).toBe('engine.internal');
  });
});

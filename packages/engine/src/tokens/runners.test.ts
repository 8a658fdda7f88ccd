/**
 * The engine over all kinds of runners: their optional abilities change the amount of computation, never an
 * answer.
 */
import { describe, expect, test } from 'vitest';
import { KvFullError } from '../runner/model-runner.ts';
import { Harness, type RequestOptions, type Transcript } from '../testing/token-harness.ts';
import { replying } from '../testing/scripted-logits.ts';
import type { ScriptedRunnerOptions } from '../testing/scripted-runner.ts';

const adapter = (name: string): { digest: string; path: string } => ({ digest: name, path: name });
const sampled = (seed: bigint): RequestOptions => ({ maxTokens: 12, sampling: { temperature: 1, seed } });

async function answersOf(options: Partial<ScriptedRunnerOptions>, requests: readonly RequestOptions[]) {
  const harness = new Harness(options);
  const replies = requests.map((asked) => harness.submit(asked));
  await harness.runLater();
  return { harness, answers: replies.map((reply: Transcript) => [reply.tokenIds(), reply.text(), reply.logprobs()]) };
}

describe('several adapters in a batch', () => {
  const requests = [
    { ...sampled(1n), adapter: adapter('a') },
    { ...sampled(2n), adapter: adapter('b') },
    { ...sampled(3n), adapter: adapter('c'), tenant: 'other' },
    sampled(4n),
  ];

  test('go side by side, as many as the runner takes', async () => {
    const one = await answersOf({}, requests);
    for (const [adaptersPerBatch, mostTogether] of [
      [2, 2],
      [3, 3],
      [Infinity, 4],
    ] as const) {
      const { harness, answers } = await answersOf({ adaptersPerBatch }, requests);
      expect(answers).toEqual(one.answers);
      const together = harness.runner.adaptersOfBatch.map((paths) => paths.length);
      expect(Math.max(...together)).toBe(mostTogether);
      expect(together.length).toBeLessThan(one.harness.runner.adaptersOfBatch.length);
    }
  });

  test('take turns if there are more', async () => {
    const many = ['a', 'b', 'c'].map((name) => ({ adapter: adapter(name), maxTokens: 10 }));
    const { harness } = await answersOf({ adaptersPerBatch: 2, logits: replying('z'.repeat(99), 5) }, many);
    const turns = harness.runner.adaptersOfBatch.slice(0, 12).flat();
    for (const name of ['a', 'b', 'c']) expect(turns.filter((path) => path === name).length).toBeGreaterThanOrEqual(7);
  });
});

describe('prefixes in blocks', () => {
  test('are found as far as whole blocks go', async () => {
    const harness = new Harness({ shareGranularity: 8 });
    const first = harness.submit({ prompt: 'x'.repeat(30) });
    harness.run();
    const [second, third] = [
      harness.submit({ prompt: `${'x'.repeat(21)}yy` }),
      harness.submit({ prompt: 'xxxxxxxyy' }),
    ];
    harness.run();
    expect([first, second, third].map(({ started }) => started?.cachedTokens)).toEqual([0, 16, 0]);
  });

  test('are not kept if nothing can share them', () => {
    const cachedBy = (shareGranularity: number): number => {
      const harness = new Harness({ shareGranularity });
      harness.submit({ prompt: 'x'.repeat(30), maxTokens: 1 });
      harness.run();
      return harness.engine.stats().cachedTokens;
    };
    expect([8, 64, Infinity].map(cachedBy)).toEqual([30, 0, 0]);
  });

  test('of two prompts that come together are computed once', async () => {
    const harness = new Harness({ shareGranularity: 8, limits: { prefillTokens: 10 } });
    const [first, second] = [1, 2].map((i) => harness.submit({ prompt: `${'x'.repeat(35)}${i}`, maxTokens: 1 }));
    harness.run();
    expect([first, second].map((reply) => reply!.started?.cachedTokens)).toEqual([0, 32]);
    expect(harness.runner.numComputedTokens).toBe(36 + 4);
  });
});

describe('a runner that draws', () => {
  test('is asked for no row of logits by a request that leaves them as they are', async () => {
    const requests = [
      sampled(1n),
      { ...sampled(2n), n: 3 },
      { maxTokens: 9 },
      { ...sampled(5n), sampling: { temperature: 0.5, topP: 0.7, topK: 30, minP: 0.01, seed: 5n } },
    ];
    const here = await answersOf({}, requests);
    const there = await answersOf({ drawsOnDevice: true }, requests);
    expect(there.answers).toEqual(here.answers);
    expect(here.harness.runner.numRowsRead).toBeGreaterThan(50);
    expect(there.harness.runner.numRowsRead).toBe(0);
  });

  test.each<[string, RequestOptions]>([
    ['logprobs', { logprobs: 1 }],
    ['a bias', { sampling: { logitBias: [[65, 2]] } }],
    ['a penalty', { sampling: { presencePenalty: 1 } }],
    ['allowed tokens', { allowedTokenIds: [65, 66] }],
    ['a trace', { tracesSampling: true, sampling: { temperature: 1, topK: 5 } }],
    ['beams', { beamSearch: { lengthPenalty: 1 } }],
  ])('leaves the rows to the engine for %s', async (_name, asked) => {
    const here = await answersOf({}, [{ maxTokens: 9, ...asked }]);
    const there = await answersOf({ drawsOnDevice: true }, [{ maxTokens: 9, ...asked }, sampled(7n)]);
    expect(there.answers[0]).toEqual(here.answers[0]);
    expect(there.harness.runner.numRowsRead).toBe(here.harness.runner.numRowsRead);
  });

  test('draws the same if minTokens end in the middle of the reply', async () => {
    const requests = [{ ...sampled(3n), minTokens: 4 }];
    const here = await answersOf({}, requests);
    const there = await answersOf({ drawsOnDevice: true }, requests);
    expect(there.answers).toEqual(here.answers);
    expect(there.harness.runner.numRowsRead).toBe(4);
  });

  test('draws the same after a batch that found no cells', async () => {
    const requests = [{ ...sampled(3n), n: 4 }];
    const here = await answersOf({}, requests);
    const harness = new Harness({ drawsOnDevice: true });
    let numFailures = 0;
    harness.runner.beforeRun = () => {
      if (harness.engine.stats().generatedTokens < 6 || numFailures > 1) return;
      numFailures++;
      throw new KvFullError('scripted');
    };
    const reply = harness.submit(requests[0]);
    harness.run();
    expect(numFailures).toBe(2);
    expect([reply.tokenIds(), reply.text(), reply.logprobs()]).toEqual(here.answers[0]);
  });

  test('and finds no possible token fails only the request', async () => {
    const nan = new Harness({
      drawsOnDevice: true,
      logits: (_tokens, path, row) => void row.fill(path === null ? 0 : -Infinity),
    });
    const bad = nan.submit({ adapter: adapter('bad') });
    const good = nan.submit();
    nan.run();
    expect(bad.failed).toMatchObject({
      code: 'engine.internal',
      message: 'no token is possible: the model gave no finite logit',
    });
    expect(good.completed).toBeDefined();
  });
});

describe('a runner that answers later', () => {
  test('is asked for one batch at a time', async () => {
    const harness = new Harness({ answersLater: true });
    harness.submit();
    const step = harness.engine.step();
    expect(() => harness.engine.step()).toThrow('the step before has not ended');
    await step;
    await harness.runLater();
  });

  test('and was short of cells computes the rest', async () => {
    const harness = new Harness({ answersLater: true });
    const replies = [harness.submit(sampled(1n)), harness.submit(sampled(2n))];
    await harness.stepLater();
    let isFull = true;
    harness.runner.beforeRun = () => {
      if (!isFull) return;
      isFull = false;
      throw new KvFullError('scripted');
    };
    await harness.runLater();
    expect(isFull).toBe(false);
    expect(harness.engine.stats().numPreemptions).toBe(1);
    const alone = await answersOf({}, [sampled(1n), sampled(2n)]);
    expect(replies.map((reply) => reply.tokenIds())).toEqual(alone.answers.map(([ids]) => ids));
  });

  test('and fails, fails the requests of its batch and no other', async () => {
    const harness = new Harness({ answersLater: true });
    const bad = harness.submit({ adapter: adapter('bad') });
    const good = harness.submit();
    harness.runner.beforeRun = ({ adapters }) => {
      if (adapters.some((loaded) => loaded !== null)) throw new Error('the connection was lost');
    };
    await harness.runLater();
    expect(bad.failed).toMatchObject({
      code: 'engine.internal',
      message: expect.stringContaining('the connection was lost'),
    });
    expect(good.completed).toBeDefined();
  });

  test('is closed after the batch that it computes, and every request ends', async () => {
    const harness = new Harness({ answersLater: true });
    const replies = [harness.submit({ adapter: adapter('a') }), harness.submit({ adapter: adapter('a') })];
    const step = harness.engine.step();
    harness.engine.close();
    const late = harness.submit();
    expect(harness.runner.openAdapters.size).toBe(1);
    await step;
    expect(harness.runner.openAdapters.size).toBe(0);
    expect(harness.runner.numUsedCells).toBe(0);
    for (const reply of [...replies, late]) {
      expect(reply.numEnds).toBe(1);
      expect(reply.failed).toMatchObject({ code: 'engine.aborted', message: 'the engine was closed' });
    }
    harness.engine.close();
  });
});

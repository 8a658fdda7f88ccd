import { describe, expect, test } from 'vitest';
import type { EngineError, SampledTokens, SampleOutput, SampleTotals } from '@trainyard/backend';
import { Harness, request } from './token-harness.ts';
import { EOS, mixedLogits, replying, SECOND_END, VOCAB_SIZE } from './scripted-logits.ts';
import type { RequestOptions } from './token-harness.ts';
import { ScriptedRunner, type ScriptedRunnerOptions } from './scripted-runner.ts';
import { TokenEngine, type TokenEngineParts } from '../tokens/token-engine.ts';
import { type EngineSampleParams, TokenSampler } from './token-sampler.ts';

const NEVER = new AbortController().signal;
const PROMPT = [...Buffer.from('hello')];

function open(options: Partial<ScriptedRunnerOptions> & { limits?: TokenEngineParts['limits'] } = {}) {
  const runner = new ScriptedRunner({ vocabSize: VOCAB_SIZE, logits: mixedLogits, ...options });
  const engine = new TokenEngine({
    runner,
    ends: { eosTokenId: EOS, endTokenIds: new Set([EOS, SECOND_END]) },
    limits: options.limits ?? {},
  });
  return { runner, engine, sampler: new TokenSampler(engine) };
}

/** Parameters without text. */
function params(options: Omit<RequestOptions, 'prompt' | 'requestId'> = {}): EngineSampleParams {
  const { requestId: _, promptIds: _ids, text: _text, ...rest } = request(options);
  return { ...rest, bannedSequences: [], text: null };
}

async function collect(
  sampled: AsyncGenerator<SampleOutput, SampleTotals>,
): Promise<{ steps: SampledTokens[]; totals: SampleTotals }> {
  const steps: SampledTokens[] = [];
  for (;;) {
    const { done, value } = await sampled.next();
    if (done) return { steps, totals: value };
    if (value.kind === 'tokens') steps.push(value);
  }
}

const idsOf = (steps: readonly SampledTokens[], index = 0): number[] =>
  steps.filter((step) => step.index === index).flatMap(({ tokenIds }) => tokenIds);

describe('sampling by token ids only', () => {
  const asked: Omit<RequestOptions, 'prompt'> = {
    n: 3,
    maxTokens: 20,
    minTokens: 3,
    logprobs: 2,
    promptLogprobs: 1,
    sampling: { temperature: 1, topK: 30, presencePenalty: 0.5, seed: 4n },
    allowedTokenIds: [EOS, SECOND_END, ...Array.from({ length: 60 }, (_, i) => i + 40)],
  };

  test('gives the tokens and log-probabilities of the engine with text', async () => {
    const { steps, totals } = await collect(open().sampler.sample(PROMPT, params(asked), NEVER));
    const harness = new Harness();
    const reply = harness.submit({ ...asked, prompt: PROMPT });
    harness.run();
    for (const index of [0, 1, 2]) {
      expect(idsOf(steps, index)).toEqual(reply.tokenIds(index));
      const { finishReason, stopReason } = reply.finished(index)!;
      expect(steps.findLast((step) => step.index === index)?.finish).toEqual({ reason: finishReason, stopReason });
      expect(steps.filter((step) => step.index === index).flatMap(({ logprobs }) => logprobs ?? [])).toEqual(
        reply.logprobs(index).map(({ id, logprob, top }) => ({
          id,
          logprob,
          top: top.map((entry) => ({ id: entry.id, logprob: entry.logprob })),
        })),
      );
    }
    const { usage, promptLogprobs } = reply.completed!;
    expect(totals).toEqual({
      ...usage,
      promptLogprobs: promptLogprobs!.map(
        (entries) => entries && entries.map(({ id, logprob, rank }) => ({ id, logprob, rank })),
      ),
    });
  });

  test('searches beams, too', async () => {
    const beams = { n: 3, maxTokens: 6, beamSearch: { lengthPenalty: 1 } };
    const { steps } = await collect(open().sampler.sample(PROMPT, params(beams), NEVER));
    const harness = new Harness();
    const reply = harness.submit({ ...beams, prompt: PROMPT });
    harness.run();
    for (const index of [0, 1, 2]) expect(idsOf(steps, index)).toEqual(reply.tokenIds(index));
  });

  test.each<[string, Omit<RequestOptions, 'prompt'>, string, object]>([
    ['an end token', {}, 'ab', { reason: 'stop', stopReason: null }],
    ['a stop token', { stopTokenIds: [98] }, 'abc', { reason: 'stop', stopReason: 98 }],
    ['the length', { maxTokens: 2 }, 'abc', { reason: 'length', stopReason: null }],
    [
      'a repetition',
      { repetitionDetection: { maxPatternSize: 2, minPatternSize: 1, minCount: 3 }, maxTokens: 30 },
      'xabababab',
      { reason: 'repetition', stopReason: 'repetition_detected' },
    ],
  ])('ends by %s', async (_end, options, reply, finish) => {
    const { sampler } = open({ logits: replying(reply, PROMPT.length) });
    const { steps } = await collect(sampler.sample(PROMPT, params(options), NEVER));
    expect(steps.at(-1)?.finish).toEqual(finish);
  });

  test('serves many at a time, over a runner that answers later', async () => {
    const { engine, sampler } = open({ answersLater: true, drawsOnDevice: true, adaptersPerBatch: 2 });
    const seeds = [1n, 2n, 3n, 4n, 5n];
    const adapter = { digest: 'a', path: 'a' };
    const paramsOf = (seed: bigint): EngineSampleParams =>
      params({ sampling: { temperature: 1, seed }, maxTokens: 15, ...(seed > 3n ? { adapter } : {}) });
    const together = await Promise.all(seeds.map((seed) => collect(sampler.sample(PROMPT, paramsOf(seed), NEVER))));
    for (const [i, seed] of seeds.entries()) {
      const alone = await collect(open().sampler.sample(PROMPT, paramsOf(seed), NEVER));
      expect(idsOf(together[i]!.steps)).toEqual(idsOf(alone.steps));
    }
    engine.checkIntegrity();
    expect(engine.stats()).toMatchObject({ numRequests: 0, numRunning: 0 });
  });
});

describe('an end that is not the reply’s', () => {
  const long = params({ maxTokens: 3000, ignoreEos: true });

  test('is the reader’s, who leaves', async () => {
    const { engine, sampler } = open();
    for await (const output of sampler.sample(PROMPT, long, NEVER)) {
      if (output.kind !== 'tokens') continue;
      expect(output.tokenIds).toHaveLength(1);
      break;
    }
    await expect.poll(() => engine.stats().numRequests).toBe(0);
  });

  test('is the signal’s, also when it came before', async () => {
    const { engine, sampler } = open();
    const controller = new AbortController();
    const sampled = sampler.sample(PROMPT, long, controller.signal);
    await sampled.next();
    controller.abort();
    const failure = expect.objectContaining({ code: 'engine.aborted' });
    await expect(collect(sampled)).rejects.toEqual(failure);
    await expect(collect(sampler.sample(PROMPT, long, controller.signal))).rejects.toEqual(failure);
    expect(engine.stats().numRequests).toBe(0);
  });

  test('is the engine’s, which is closed', async () => {
    const { engine, sampler, runner } = open({ answersLater: true });
    const sampled = sampler.sample(PROMPT, long, NEVER);
    await sampled.next();
    engine.close();
    await expect(collect(sampled)).rejects.toEqual(expect.objectContaining({ code: 'engine.aborted' }));
    expect(runner.numUsedCells).toBe(0);
  });
});

test.each<[string, readonly number[], EngineSampleParams, string, string | null]>([
  ['an empty prompt', [], params(), 'engine.invalid_request', 'prompt'],
  ['an invalid id', [VOCAB_SIZE], params(), 'engine.invalid_request', 'prompt'],
  ['a prompt that leaves no room', PROMPT.flatMap(() => PROMPT), params(), 'context_length_exceeded', 'prompt'],
  ['a minimum beyond the context', PROMPT, params({ minTokens: 20 }), 'engine.invalid_request', 'minTokens'],
  ['settings out of range', PROMPT, params({ sampling: { topP: 0 } }), 'engine.invalid_request', 'topP'],
])('%s is refused', async (_name, tokenIds, asked, code, param) => {
  const { sampler } = open({ contextLength: 20 });
  const refusal = await collect(sampler.sample(tokenIds, asked, NEVER)).catch((error: EngineError) => error);
  expect(refusal).toMatchObject({ code, param });
});

test('the number of draws in flight stays within the limit', async () => {
  const { sampler } = open({ limits: { maxRequests: 1 } });
  const first = sampler.sample(PROMPT, params(), NEVER);
  await first.next();
  await expect(collect(sampler.sample(PROMPT, params(), NEVER))).rejects.toEqual(
    expect.objectContaining({ code: 'engine.overloaded' }),
  );
  await collect(first);
});

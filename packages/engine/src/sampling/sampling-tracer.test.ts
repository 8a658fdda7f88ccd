import { NO_TRUNCATION } from '@trainyard/protocol/fields';
import { MAX_TRACE_BYTES } from '@trainyard/protocol/fields';
import { isKept, readKeptTokens } from '@trainyard/tokenizer';
import { describe, expect, test } from 'vitest';
import { Harness, type RequestOptions } from '../testing/token-harness.ts';
import { mixedLogits, VOCAB_SIZE } from '../testing/scripted-logits.ts';
import { DrawKey } from './random.ts';
import { SamplerBuffers, sampleToken } from './sampler.ts';
import { SamplingTracer } from './sampling-tracer.ts';

const WAYS: readonly [string, RequestOptions][] = [
  ['temperature', { sampling: { temperature: 0.7 } }],
  ['top_p', { sampling: { temperature: 1, topP: 0.6 } }],
  ['top_k, hot', { sampling: { temperature: 2, topK: 7 } }],
  ['top_k of everything', { sampling: { temperature: 1.5, topK: VOCAB_SIZE } }],
  ['min_p', { sampling: { temperature: 1, minP: 0.1 } }],
  ['top_n_sigma, hot', { sampling: { temperature: 1.6, topNSigma: 1 } }],
  ['a bias', { sampling: { temperature: 1, logitBias: [[3, 4]] } }],
  ['penalties', { sampling: { temperature: 1, repetitionPenalty: 1.4, presencePenalty: 0.5, frequencyPenalty: 0.2 } }],
  ['allowed ids', { sampling: { temperature: 1 }, allowedTokenIds: [5, 6, 7, 9, 200] }],
  ['min_tokens', { sampling: { temperature: 1 }, minTokens: 5 }],
  ['a constraint', { sampling: { temperature: 1 }, digits: { min: 3, max: 9 } }],
  ['all of it', { sampling: { temperature: 0.8, topP: 0.9, logitBias: [[50, 3]] }, digits: { min: 3, max: 9 } }],
];

describe('the distribution of a choice', () => {
  test.each(WAYS)('%s: comes with its end, and agrees with processed log-probabilities', (_, options) => {
    const harness = new Harness({ logits: mixedLogits });
    const traced = harness.submit({ ...options, n: 3, logprobs: 0, tracesSampling: true });
    const processed = harness.submit({ ...options, n: 3, logprobs: -1, logprobsMode: 'processed' });
    harness.run();
    for (let index = 0; index < 3; index++) {
      const { sampling } = traced.finished(index)!;
      const tokenIds = traced.tokenIds(index);
      const expected = processed.logprobs(index);
      expect(tokenIds).toEqual(expected.map((entry) => entry.id));
      expect(sampling).toMatchObject({ lost: null, settings: options.sampling });
      const { logprobs, kept } = sampling!.trace!;
      const differences = expected.map(({ logprob }, place) => Math.abs(logprob - logprobs[place]!));
      expect(Math.max(...differences)).toBeLessThan(1e-5);
      const { sets, setOf } = readKeptTokens(kept, tokenIds.length)!;
      for (const [place, { top }] of expected.entries()) {
        const set = setOf[place] === -1 ? null : sets[setOf[place]!]!;
        for (const { id, logprob } of top) expect(set === null || isKept(set, id)).toBe(logprob > -9999);
      }
    }
    expect(processed.finished()).not.toHaveProperty('sampling');
  });

  test.each([1e-300, 1e300])('equal logits at the limits of a penalty of %d share their probability', (penalty) => {
    const three = (_tokens: unknown, _path: unknown, row: Float32Array) => void row.fill(penalty < 1 ? 1 : -1);
    const harness = new Harness({ logits: three });
    const ids = [65, 66, 67];
    const asked = { prompt: ids, sampling: { temperature: 0.5, repetitionPenalty: penalty }, allowedTokenIds: ids };
    const traced = harness.submit({ ...asked, maxTokens: 4, tracesSampling: true });
    const processed = harness.submit({ ...asked, maxTokens: 4, logprobs: 0, logprobsMode: 'processed' });
    harness.run();
    for (const logprob of traced.finished()!.sampling!.trace!.logprobs) expect(logprob).toBeCloseTo(-Math.log(3), 5);
    for (const { logprob } of processed.logprobs()) expect(logprob).toBeCloseTo(-Math.log(3), 5);
  });

  test('is null if it is the plain model at temperature 1', () => {
    const harness = new Harness();
    const transcript = harness.submit({ sampling: { temperature: 1 }, tracesSampling: true });
    harness.run();
    expect(transcript.finished()).toHaveProperty('sampling', null);
  });

  test('is lost of greedy choices, with the reason', () => {
    const harness = new Harness();
    const transcript = harness.submit({ sampling: { temperature: 0 }, tracesSampling: true });
    harness.run();
    expect(transcript.finished()!.sampling).toMatchObject({
      trace: null,
      lost: 'greedy',
      settings: { temperature: 0 },
    });
  });

  test('is lost when it grows too large, and then takes no memory', () => {
    const vocabSize = 100_000;
    const buffers = new SamplerBuffers(vocabSize);
    const tracer = new SamplingTracer(2);
    const settings = { ...NO_TRUNCATION, temperature: 2, topP: 0.6 };
    const row = new Float32Array(vocabSize);
    let numTokens = 0;
    for (; tracer.finish() !== null; numTokens++) {
      for (let id = 0; id < vocabSize; id++) row[id] = Math.sin(id * (numTokens + 1.3));
      sampleToken(row, { settings, key: new DrawKey(numTokens, 1), tracer }, buffers);
    }
    console.log(`${MAX_TRACE_BYTES} bytes were full after ${numTokens} tokens drawn from some 50,000 each`);
    expect(numTokens).toBeGreaterThan(2);
    expect(numTokens).toBeLessThan(20);
  });
});

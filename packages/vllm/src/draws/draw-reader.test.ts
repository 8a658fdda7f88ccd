import type { ReportedDraw, SampleParams, TokenBackend } from '@trainyard/backend';
import { sampleParams } from '@trainyard/backend/testing';
import { TokenEngine } from '@trainyard/engine';
import {
  byteTokenizer,
  EmbeddedTokenBackend,
  mixedLogits,
  ScriptedRunner,
  VOCAB_SIZE,
} from '@trainyard/engine/testing';
import { describe, expect, test } from 'vitest';
import { FakePool, PROMPT } from '../testing/fake-pool.ts';
import type { FakeVllmOptions } from '../testing/fake-vllm.ts';

/** Engine with a distribution as peaked as a trained model's: 20 tokens have most of the mass. */
function openBrain(): EmbeddedTokenBackend {
  const runner = new ScriptedRunner({
    vocabSize: VOCAB_SIZE,
    logits: (tokens, adapterPath, row) => {
      mixedLogits(tokens, adapterPath, row);
      for (let id = 0; id < row.length; id++) row[id] = 12 * (Math.max(0, row[id]!) / 6) ** 8;
    },
  });
  return new EmbeddedTokenBackend({ modelId: 'scripted', engine: new TokenEngine({ runner, ends: byteTokenizer }) });
}

type Asked = NonNullable<Parameters<typeof sampleParams>[0]>;
/** Facts that the reader reports in addition to the settings of the request. */
type Known = 'all' | 'the set' | 'the probability' | 'nothing';

const WAYS: Readonly<Record<string, [asked: Asked, raw: Known, processed: Known]>> = {
  'a temperature': [{ sampling: { temperature: 0.7 } }, 'the set', 'all'],
  penalties: [{ sampling: { presencePenalty: 0.5, frequencyPenalty: 0.3, repetitionPenalty: 1.2 } }, 'the set', 'all'],
  'a bias': [
    {
      sampling: {
        logitBias: [
          [65, 3],
          [66, -2],
        ],
      },
    },
    'the set',
    'all',
  ],
  'allowed ids, all of which are listed': [{ allowedTokenIds: [65, 66, 67] }, 'the set', 'all'],
  'an end that comes too early': [{ minTokens: 9, stopTokenIds: [70, 71], ignoreEos: false }, 'the set', 'all'],
  top_k: [{ sampling: { topK: 5 } }, 'all', 'all'],
  'top_k, cooler, with a bias': [{ sampling: { topK: 5, temperature: 0.7, logitBias: [[65, -3]] } }, 'all', 'all'],
  min_p: [{ sampling: { minP: 0.1, temperature: 0.9 } }, 'all', 'all'],
  top_p: [{ sampling: { topP: 0.5 } }, 'all', 'all'],
  'top_p, cooler': [{ sampling: { topP: 0.4, temperature: 0.3 } }, 'all', 'all'],
  'top_k and top_p, hotter': [{ sampling: { topK: 9, topP: 0.8, temperature: 1.3 } }, 'all', 'all'],
  'top_p and presence': [
    { sampling: { topK: 12, topP: 0.8, presencePenalty: 0.5, frequencyPenalty: 0.1 } },
    'all',
    'all',
  ],
  'top_p of more than is listed': [{ sampling: { topP: 0.999 } }, 'nothing', 'the probability'],
  'top_p, hotter than is listed': [{ sampling: { topP: 0.97, temperature: 1.5 } }, 'nothing', 'the probability'],
  'top_k with a penalty that needs logits': [{ sampling: { topK: 5, repetitionPenalty: 1.2 } }, 'nothing', 'all'],
};

async function drawsOf(backend: TokenBackend, asked: Asked, mode: 'raw' | 'processed') {
  const params: SampleParams = sampleParams({
    logprobs: 2,
    logprobsMode: mode,
    tracesSampling: true,
    maxTokens: 16,
    ...asked,
    sampling: { temperature: 1, seed: 11n, ...asked.sampling },
  });
  const tokenIds: number[] = [];
  const draws: ReportedDraw[] = [];
  const tops: number[] = [];
  for await (const output of backend.sample(PROMPT, params, new AbortController().signal)) {
    if (output.kind !== 'tokens') continue;
    tokenIds.push(...output.tokenIds);
    draws.push(...(output.draws ?? []));
    tops.push(...(output.logprobs ?? []).map(({ top }) => top.length));
  }
  return { tokenIds, draws, tops };
}

describe.each(['raw', 'processed'] as const)('a server with %s log-probabilities', (logprobsMode) => {
  test.each(Object.entries(WAYS))(
    'reports of %s equal those of the engine, as far as possible',
    async (_way, [asked, raw, processed]) => {
      const fake: Partial<FakeVllmOptions> = { brain: openBrain(), logprobsMode, maxLogprobs: 20 };
      await using pool = await FakePool.start({ fake });
      const own = await drawsOf(openBrain(), asked, logprobsMode);
      const there = await drawsOf(pool.backend, asked, logprobsMode);
      expect(there.tokenIds).toEqual(own.tokenIds);
      // More is listed than the client requested.
      expect(new Set(there.tops)).toEqual(new Set([2]));
      expect(there.draws.length).toBe(own.draws.length);
      const known = logprobsMode === 'raw' ? raw : processed;
      let largest = 0;
      for (const [at, draw] of there.draws.entries()) {
        const expected = own.draws[at];
        if (typeof expected !== 'object') throw new Error('the engine reports every draw');
        if (known === 'nothing' && typeof draw === 'string') continue;
        if (typeof draw === 'string') throw new Error(`${draw} at ${at}`);
        if (known === 'all' || known === 'the set') expect(draw.kept).toEqual(expected.kept);
        if (!Number.isNaN(draw.logprob)) largest = Math.max(largest, Math.abs(draw.logprob - expected.logprob));
        if (known === 'all' || known === 'the probability') expect(draw.logprob).not.toBeNaN();
      }
      if (known === 'nothing') expect(there.draws).toContain('undetermined');
      expect(largest).toBeLessThan(1e-5);
      console.log(`${logprobsMode}: ${there.draws.length} draws, largest difference ${largest}`);
    },
  );
});

test('plain draws, greedy ones and requests that ask for no trace report nothing', async () => {
  await using pool = await FakePool.start({ fake: { brain: openBrain() } });
  const asked: Asked[] = [
    {},
    { sampling: { temperature: 0, topK: 3 } },
    { sampling: { topK: 3 }, tracesSampling: false },
  ];
  for (const one of asked) expect((await drawsOf(pool.backend, one, 'raw')).draws).toEqual([]);
});

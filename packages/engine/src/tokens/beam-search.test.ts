import { describe, expect, test } from 'vitest';
import { Harness } from '../testing/token-harness.ts';
import { byteTokenizer, EOS, mixedLogits, SECOND_END, VOCAB_SIZE } from '../testing/scripted-logits.ts';
import type { RequestOptions } from '../testing/token-harness.ts';
import { RandomStream } from '../sampling/random.ts';
import type { LogitsScript } from '../testing/scripted-runner.ts';

const PROMPT = [...Buffer.from('a prompt')];

interface Reply {
  tokenIds: number[];
  finishReason: string;
  stopReason: unknown;
  /** Sum of the log-probabilities of the reported tokens. */
  score: number;
}

/** Reference by definition, over all tokens and without a cache: vLLM's loop with 2W logprobs per beam. */
function plainSearch(
  script: LogitsScript,
  asked: { width: number; maxTokens: number; lengthPenalty: number; ignoreEos: boolean; includeStop: boolean },
): Reply[] {
  const logprobs = (tokens: readonly number[]): number[] => {
    const row = new Float32Array(VOCAB_SIZE);
    script(tokens, null, row);
    const total = Math.log(row.reduce((sum, x) => sum + Math.exp(x), 0));
    return Array.from(row, (x) => x - total);
  };
  const rate = (score: number, tokens: readonly number[]): number =>
    score / (tokens.length - (tokens.at(-1) === EOS ? 1 : 0)) ** asked.lengthPenalty;
  let live = [{ tokens: PROMPT, score: 0 }];
  const done: (Reply & { rating: number })[] = [];
  for (let step = 0; step < asked.maxTokens && live.length > 0; step++) {
    const next: typeof live = [];
    for (const beam of live) {
      const row = logprobs(beam.tokens);
      const best = row
        .map((_, id) => id)
        .sort((a, b) => row[b]! - row[a]! || a - b)
        .slice(0, 2 * asked.width);
      for (const id of best) {
        const tokens = [...beam.tokens, id];
        const score = beam.score + row[id]!;
        if (id !== EOS || asked.ignoreEos) next.push({ tokens, score });
        else {
          const kept = asked.includeStop ? tokens : beam.tokens;
          done.push({
            tokenIds: kept.slice(PROMPT.length),
            finishReason: 'stop',
            stopReason: EOS,
            score: asked.includeStop ? score : beam.score,
            rating: rate(score, kept),
          });
        }
      }
    }
    live = next.sort((a, b) => b.score - a.score).slice(0, asked.width);
  }
  for (const { tokens, score } of live)
    done.push({
      tokenIds: tokens.slice(PROMPT.length),
      finishReason: 'length',
      stopReason: null,
      score,
      rating: rate(score, tokens),
    });
  return done
    .sort((a, b) => b.rating - a.rating)
    .slice(0, asked.width)
    .map(({ tokenIds, finishReason, stopReason, score }) => ({ tokenIds, finishReason, stopReason, score }));
}

/** Logits by hash, on few tokens, with an end token that is sometimes likely: beams split, die and complete. */
const branching =
  (seed: number): LogitsScript =>
  (tokens, path, row) => {
    mixedLogits([...tokens, seed], path, row);
    for (let id = 0; id < row.length; id++) if (id < 97 || id > 104) row[id] = -20;
    row[EOS] = new RandomStream(BigInt(tokens.reduce((sum, token) => sum * 31 + token, seed) % 1e9)).uniform() * 7;
  };

function search(
  logits: LogitsScript,
  options: RequestOptions,
  harnessOptions: object = {},
): ReturnType<Harness['submit']> {
  const harness = new Harness({ logits, ...harnessOptions });
  const reply = harness.submit({ prompt: PROMPT, beamSearch: { lengthPenalty: 1 }, ...options });
  harness.run();
  return reply;
}

describe('beam search', () => {
  test('finds the beams of the definition, for any width, penalty, ends and memory', () => {
    let numStops = 0;
    let numLengths = 0;
    let largest = 0;
    for (let seed = 0; seed < 60; seed++) {
      const width = 1 + (seed % 5);
      const lengthPenalty = [1, 0, 2.5, -1][seed % 4]!;
      const ignoreEos = seed % 7 === 0;
      const includeStop = seed % 3 === 0;
      const maxTokens = 1 + (seed % 9);
      const script = branching(seed);
      const reply = search(
        script,
        { n: width, maxTokens, ignoreEos, includeStopString: includeStop, logprobs: 0, beamSearch: { lengthPenalty } },
        seed % 2 === 0 ? {} : { capacityTokens: 40, maxSequences: 3, contextLength: 20 },
      );
      const expected = plainSearch(script, { width, maxTokens, lengthPenalty, ignoreEos, includeStop });
      for (const [index, hypothesis] of expected.entries()) {
        const given = reply.finished(index)!;
        expect(given.tokenIds).toEqual(hypothesis.tokenIds);
        expect(given).toMatchObject({ finishReason: hypothesis.finishReason, stopReason: hypothesis.stopReason });
        expect(given.logprobs!.map(({ id }) => id)).toEqual(given.tokenIds);
        const sum = given.logprobs!.reduce((total, { logprob }) => total + logprob, 0);
        largest = Math.max(largest, Math.abs(sum - hypothesis.score));
        if (hypothesis.finishReason === 'stop') numStops++;
        else numLengths++;
      }
      expect(reply.finished(expected.length)).toBeUndefined();
      expect(reply.completed?.usage.completionTokens).toBe(expected.flatMap(({ tokenIds }) => tokenIds).length);
    }
    console.log(
      `beams: ${numStops} ended, ${numLengths} by length; largest difference of a score ${largest.toExponential(1)}`,
    );
    expect(Math.min(numStops, numLengths)).toBeGreaterThan(30);
    expect(largest).toBeLessThan(1e-4);
  });

  test('emits nothing before the end, then one finished event per beam with its whole text, best first', () => {
    const reply = search(branching(3), { n: 3, maxTokens: 4, ignoreEos: true });
    expect(reply.events.map(({ kind }) => kind)).toEqual(['started', 'finished', 'finished', 'finished', 'completed']);
    const { text, tokenIds } = reply.finished(0)!;
    expect(text).toBe(byteTokenizer.decode(tokenIds, { skipSpecial: true }));
    expect(reply.finished(0)!.logprobs).toBeNull();
  });

  test('computes the prompt once and each step one token a beam', () => {
    const harness = new Harness({ logits: branching(5) });
    harness.submit({ prompt: PROMPT, n: 4, maxTokens: 6, ignoreEos: true, beamSearch: { lengthPenalty: 1 } });
    harness.run();
    expect(harness.runner.numComputedTokens).toBe(PROMPT.length + 5 * 4);
    // The next request finds the prompt.
    const next = harness.submit({ prompt: PROMPT, maxTokens: 1 });
    harness.run();
    expect(next.started?.cachedTokens).toBe(PROMPT.length - 1);
  });

  test('long prompts take the length penalty its power, since they count', () => {
    // One certain token, then the end or five more: a reply of 1 against one of 6.
    const script: LogitsScript = (tokens, _path, row) => {
      row.fill(-30);
      const place = tokens.length - tokens.lastIndexOf(112) - 1;
      row[place === 1 ? EOS : 98] = 2;
      if (place === 1) row[98] = 1.6;
      if (place >= 6) row[EOS] = 9;
    };
    const best = (promptLength: number): number =>
      search(script, {
        prompt: [...Buffer.from('p'.repeat(promptLength))],
        n: 2,
        maxTokens: 8,
        beamSearch: { lengthPenalty: 1 },
      }).tokenIds(0).length;
    // -0.51 / 2 = -0.26 against -0.91 / 7 = -0.13; after 200 prompt tokens -0.0026 against -0.0044.
    expect(best(1)).toBe(6);
    expect(best(200)).toBe(1);
  });

  test('an end token at the end does not count, though ignoreEos continues after it', () => {
    const script: LogitsScript = (_tokens, _path, row) => {
      row.fill(-30);
      row[EOS] = 0.01;
      row[98] = 0;
    };
    // -0.69 / 1 against -0.70 / 2
    const reply = search(script, { prompt: 'p', n: 2, maxTokens: 1, ignoreEos: true });
    expect([0, 1].map((index) => reply.tokenIds(index))).toEqual([[98], [EOS]]);
  });

  test('comes in order of arrival, at any priority', () => {
    const harness = new Harness({ limits: { maxRunning: 1 } });
    const search = harness.submit({ priority: 9, maxTokens: 3, beamSearch: { lengthPenalty: 1 } });
    const later = harness.submit({ prompt: 'later', maxTokens: 3 });
    while (!search.completed) harness.step();
    expect(later.started).toBeUndefined();
  });

  test('a secondary end token is a token like any other', () => {
    const script: LogitsScript = (tokens, _path, row) => {
      row.fill(-30);
      row[tokens.length === PROMPT.length ? SECOND_END : 98] = 2;
    };
    const reply = search(script, { n: 1, maxTokens: 3 });
    expect(reply.tokenIds(0)).toEqual([SECOND_END, 98, 98]);
    expect(reply.text(0)).toBe('bb');
    expect(search(script, { n: 1, maxTokens: 3, skipSpecialTokens: false }).text(0)).toBe('<|endoftext|>bb');
  });

  test('top logprobs are the taken token, then the likeliest of its row, at most 2W', () => {
    const reply = search(branching(4), { n: 2, maxTokens: 3, ignoreEos: true, logprobs: 20 });
    for (const entry of reply.logprobs(1)) {
      expect(entry.top[0]!.id).toBe(entry.id);
      expect(entry.top).toHaveLength(4);
      const rest = entry.top.slice(1).map(({ logprob }) => logprob);
      expect(rest).toEqual(rest.toSorted((a, b) => b - a));
    }
  });

  test('heeds neither seed, stops, penalties, masks, constraint, prompt logprobs nor priority', () => {
    const plain = search(branching(8), { n: 3, maxTokens: 5 });
    const busy = search(branching(8), {
      n: 3,
      maxTokens: 5,
      stopTokenIds: [97, 98, 99],
      minTokens: 5,
      allowedTokenIds: [65],
      repetitionDetection: { maxPatternSize: 1, minPatternSize: 1, minCount: 2 },
      digits: { min: 1, max: 2 },
      promptLogprobs: 2,
      priority: 5,
      sampling: {
        temperature: 2,
        topP: 0.1,
        topK: 1,
        frequencyPenalty: 2,
        repetitionPenalty: 5,
        logitBias: [[65, 100]],
        seed: 9n,
      },
    });
    expect(busy.events).toEqual(plain.events);
  });

  test('is no wider than 10, and may be greedy', () => {
    expect(new Harness().submit({ n: 11, beamSearch: { lengthPenalty: 1 } }).failed).toMatchObject({
      code: 'engine.invalid_request',
      param: 'n',
      message: expect.stringMatching(/at most 10.*11/),
    });
    const reply = search(mixedLogits, { n: 10, maxTokens: 2, sampling: { temperature: 0 } });
    expect(reply.completed).toBeDefined();
  });

  test('without maxTokens fills the context', () => {
    const reply = search(branching(1), { n: 2, maxTokens: null, ignoreEos: true }, { contextLength: 20 });
    expect(reply.tokenIds(0)).toHaveLength(20 - PROMPT.length);
  });

  test('shares the engine with samples, and an abort takes all its beams', () => {
    const harness = new Harness({ logits: branching(2), maxSequences: 6 });
    const sampled = harness.submit({ maxTokens: 20, ignoreEos: true });
    const aborted = harness.submit({
      prompt: PROMPT,
      n: 4,
      maxTokens: 20,
      ignoreEos: true,
      beamSearch: { lengthPenalty: 1 },
    });
    for (let i = 0; i < 6; i++) harness.step();
    harness.engine.abort(aborted.id);
    harness.run();
    expect(aborted.failed?.code).toBe('engine.aborted');
    expect(sampled.tokenIds()).toHaveLength(20);
  });

  test('logits that are no numbers fail it', () => {
    expect(search((_tokens, _path, row) => void row.fill(NaN), { n: 2 }).failed?.code).toBe('engine.internal');
  });
});

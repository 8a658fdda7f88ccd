import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaAdapter, LlamaContext, LlamaModel, quantizeModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testModel } from '../../../tests/support/model.ts';
import { request, Transcript } from './testing/text-harness.ts';
import type { RequestOptions } from './testing/text-harness.ts';
import { DEFAULT_CHAT_PROMPT, type GenerateRequest } from './contract/generate-request.ts';
import { LlamaRunner, type EngineLimits, type ModelRunner, TokenEngine } from '@trainyard/engine';
import { TextEngine } from './text-engine.ts';
import { promptBorders } from './open-text-half.ts';
import { writeTestAdapter } from '@trainyard/engine/testing';

let model: LlamaModel;
let tokenizer: Tokenizer;
let template: ChatTemplate;
const folder = mkdtempSync(join(tmpdir(), 'engine-model-'));

beforeAll(() => {
  model = LlamaModel.load(testModel().f16);
  tokenizer = Tokenizer.fromModel(model);
  template = new ChatTemplate(tokenizer, model.chatTemplate ?? '');
});
afterAll(() => {
  model?.close();
  rmSync(folder, { recursive: true });
});

// One thread: two that spin take many times as long on a busy machine.
const CONTEXT = { contextTokens: 2048, maxSequences: 16, batchTokens: 512, numThreads: 1 };

function engineOver(
  runner: ModelRunner,
  limits: Partial<EngineLimits> = {},
  parts = { tokenizer, template },
): TextEngine {
  const tokens = new TokenEngine({ runner, ends: parts.tokenizer, texts: parts.tokenizer, limits });
  return new TextEngine({ tokens, ...parts });
}

function withEngine<T>(use: (engine: TextEngine) => T, limits: Partial<EngineLimits> = {}): T {
  const engine = engineOver(new LlamaRunner(model, CONTEXT), limits);
  try {
    return use(engine);
  } finally {
    engine.close();
  }
}

function ask(question: string, options: RequestOptions = {}): GenerateRequest {
  const messages = [{ role: 'user', content: question }];
  return { ...request(options), prompt: { ...DEFAULT_CHAT_PROMPT, messages } };
}

function run(engine: TextEngine, ...requests: GenerateRequest[]): Transcript[] {
  const transcripts = requests.map((asked) => {
    const transcript = new Transcript();
    engine.submit(asked, transcript.receive);
    return transcript;
  });
  while (engine.hasWork) void engine.step();
  engine.checkIntegrity();
  return transcripts;
}

const logprobsOf = (reply: Transcript, index = 0): number[] => reply.logprobs(index).map(({ logprob }) => logprob);

interface Recomputing {
  readonly of: LlamaModel;
  readonly precision: 'f16' | 'f32';
  readonly adapterPath: string | null;
}

/**
 * Logprobs of `reply` after `prompt`, from one prefill of the whole sequence in a separate context, with
 * Math.exp.
 */
function recompute(
  prompt: readonly number[],
  reply: readonly number[],
  how: Recomputing = { of: model, precision: 'f16', adapterPath: null },
): number[] {
  return recomputeRanked(prompt, reply, how).map(({ logprob }) => logprob);
}

function recomputeRanked(
  prompt: readonly number[],
  reply: readonly number[],
  { of, precision, adapterPath }: Recomputing = { of: model, precision: 'f16', adapterPath: null },
): { logprob: number; rank: number; best: number }[] {
  using context = new LlamaContext(of, { ...CONTEXT, maxSequences: 1, cachePrecision: precision });
  using adapter = adapterPath === null ? null : LlamaAdapter.load(of, adapterPath);
  context.setAdapter(adapter);
  const tokens = [...prompt, ...reply];
  for (const [position, token] of tokens.slice(0, -1).entries())
    context.batch.add(token, position, 0, position >= prompt.length - 1);
  context.decode();
  const logits = context.logits();
  return reply.map((token, i) => {
    const row = logits.subarray(i * model.vocabSize, (i + 1) * model.vocabSize);
    const max = row.reduce((a, b) => Math.max(a, b), -Infinity);
    const logprob = row[token]! - max - Math.log(row.reduce((sum, x) => sum + Math.exp(x - max), 0));
    return { logprob, rank: row.reduce((rank, x) => rank + (x >= row[token]! ? 1 : 0), 0), best: row.indexOf(max) };
  });
}

describe('on a real model', { timeout: 120_000 }, () => {
  test('greedy text is the same with the prompt computed, found in the cache, or computed in chunks', () => {
    const asked = (): GenerateRequest => ask('What is the capital of France?', { maxTokens: 24 });
    const [cold, warm] = withEngine((engine) => [...run(engine, asked()), ...run(engine, asked())]);
    const [chunked] = withEngine((engine) => run(engine, asked()), { prefillTokens: 7 });
    console.log(`greedy: ${JSON.stringify(cold!.text())}`);
    expect(cold!.text()).toContain('Paris');
    expect([cold!, warm!].map((reply) => reply.started?.cachedTokens)).toEqual([
      0,
      cold!.completed!.usage.promptTokens - 1,
    ]);
    expect(warm!.text()).toBe(cold!.text());
    expect(chunked!.text()).toBe(cold!.text());
    expect(cold!.finished()).toMatchObject({ finishReason: 'stop', stopReason: null });
  });

  test('n = 8 computes the prompt once; logprobs agree with one prefill of each whole sequence', () => {
    const [reply, stats] = withEngine((engine) => {
      const [first] = run(
        engine,
        ask('Name a colour.', { n: 8, maxTokens: 24, logprobs: 0, sampling: { temperature: 1, seed: 4n } }),
      );
      return [first!, engine.stats()] as const;
    });
    const prompt = reply.started!.promptTokenIds;
    const numDecoded = reply.completed!.usage.completionTokens - 8; // the last token of a choice is not computed
    expect(stats.computedTokens).toBe(prompt.length + 7 + numDecoded);
    let largest = 0;
    let largestSum = 0;
    for (let index = 0; index < 8; index++) {
      const expected = recompute(prompt, reply.tokenIds(index));
      const given = logprobsOf(reply, index);
      expect(given).toHaveLength(expected.length);
      const differences = given.map((value, i) => value - expected[i]!);
      largest = Math.max(largest, ...differences.map(Math.abs));
      largestSum = Math.max(largestSum, Math.abs(differences.reduce((a, b) => a + b, 0)));
    }
    console.log(
      `logprobs of 8 choices, ${numDecoded + 8} tokens: largest difference ${largest.toExponential(1)}, of a sum ${largestSum.toExponential(1)}`,
    );
    // Other batch shapes use other kernels: f16 products summed in another order.
    expect(largest).toBeLessThan(0.02);
    expect(new Set([0, 1, 2, 3, 4, 5, 6, 7].map((index) => reply.text(index))).size).toBeGreaterThan(1);
  });

  test('prompt logprobs in chunks agree with one prefill of the prompt, though it is in the cache', () => {
    const question = 'Which river flows through Vienna, Budapest and Belgrade? Answer in one short sentence, please.';
    const [, reply] = withEngine(
      (engine) => [
        ...run(engine, ask(question, { maxTokens: 1 })),
        ...run(engine, ask(question, { maxTokens: 1, promptLogprobs: 1 })),
      ],
      { promptLogprobRows: 16 },
    );
    expect(reply!.started!.cachedTokens).toBe(0);
    const prompt = reply!.started!.promptTokenIds;
    const given = reply!.completed!.promptLogprobs!;
    const expected = recomputeRanked(prompt.slice(0, 1), prompt.slice(1));
    expect(given.map((entry) => entry?.[0]!.id)).toEqual([undefined, ...prompt.slice(1)]);
    let largest = 0;
    let numOtherRanks = 0;
    let numOtherBest = 0;
    for (const [i, { logprob, rank, best }] of expected.entries()) {
      const [actual, other] = given[i + 1]!;
      largest = Math.max(largest, Math.abs(actual!.logprob - logprob));
      if (actual!.rank !== rank) numOtherRanks++;
      if ((actual!.rank === 1 ? actual : other)!.id !== best) numOtherBest++;
    }
    console.log(
      `prompt logprobs of ${expected.length} tokens: largest difference ${largest.toExponential(1)}, other ranks ${numOtherRanks}, another most likely token ${numOtherBest}`,
    );
    // Other batch shapes use other kernels; ranks may differ if two logits are within that.
    expect(largest).toBeLessThan(0.03);
    expect(numOtherBest).toBeLessThan(3);
  });

  test('the logprobs of beams agree with one prefill of each, and the best beats the greedy reply', () => {
    const question = 'Name a river in Europe.';
    const [beams, greedy] = withEngine((engine) => [
      ...run(
        engine,
        ask(question, { n: 4, maxTokens: 10, ignoreEos: true, logprobs: 0, beamSearch: { lengthPenalty: 1 } }),
      ),
      ...run(engine, ask(question, { maxTokens: 10, ignoreEos: true, logprobs: 0 })),
    ]);
    const prompt = beams!.started!.promptTokenIds;
    const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
    let largest = 0;
    for (const index of [0, 1, 2, 3]) {
      const expected = recompute(prompt, beams!.tokenIds(index));
      for (const [i, value] of logprobsOf(beams!, index).entries())
        largest = Math.max(largest, Math.abs(value - expected[i]!));
    }
    const scores = [0, 1, 2, 3].map((index) => sum(logprobsOf(beams!, index)));
    console.log(
      `beams ${scores.map((score) => score.toFixed(2)).join(' ')}, greedy ${sum(logprobsOf(greedy!)).toFixed(2)}: ${JSON.stringify(beams!.text(0))}; largest difference ${largest.toExponential(1)}`,
    );
    expect(largest).toBeLessThan(0.03);
    expect(scores).toEqual(scores.toSorted((a, b) => b - a));
    expect(scores[0]!).toBeGreaterThanOrEqual(sum(logprobsOf(greedy!)) - 0.05);
  });

  test('in single precision (strict) the log-probabilities of any batch are those of one whole prefill', () => {
    const path = join(folder, 'single.gguf');
    quantizeModel(testModel().f16, path, 'f32', 1);
    using single = LlamaModel.load(path);
    const own = { tokenizer: Tokenizer.fromModel(single), template };
    const engine = engineOver(new LlamaRunner(single, { ...CONTEXT, cachePrecision: 'f32' }), {}, own);
    const adapter = { digest: 'strict', path: writeAdapter('strict', 0.1) };
    const sampled = { maxTokens: 16, ignoreEos: true, logprobs: 0 };
    const alone = run(engine, ask('Name a river.', { ...sampled, sampling: { temperature: 1, seed: null } }))[0]!;
    const [many, adapted] = run(
      engine,
      ask('Name a colour.', { ...sampled, n: 6, sampling: { temperature: 1, seed: 4n } }),
      ask('Name a fruit.', { ...sampled, n: 2, adapter, sampling: { temperature: 1, seed: 5n } }),
    );
    engine.close();
    for (const [name, reply, numChoices, adapterPath] of [
      ['alone', alone, 1, null],
      ['six choices', many!, 6, null],
      ['an adapter', adapted!, 2, adapter.path],
    ] as const) {
      let [sum, count, largest] = [0, 0, 0];
      for (let index = 0; index < numChoices; index++) {
        const how = { of: single, precision: 'f32', adapterPath } as const;
        const expected = recompute(reply.started!.promptTokenIds, reply.tokenIds(index), how);
        for (const [i, value] of logprobsOf(reply, index).entries()) {
          const difference = Math.abs(value - expected[i]!);
          [sum, count, largest] = [sum + difference, count + 1, Math.max(largest, difference)];
        }
      }
      console.log(
        `strict, ${name}: mean ${(sum / count).toExponential(1)}, largest ${largest.toExponential(1)} of ${count} tokens`,
      );
      expect(sum / count).toBeLessThan(1e-5);
      expect(largest).toBeLessThan(1e-3);
    }
  });

  test('the vocabulary adds the same tokens around a text as llama.cpp', () => {
    const { before, after } = promptBorders(model);
    console.log(`borders: ${JSON.stringify({ before, after })}, adds a beginning token: ${model.addsBos}`);
    expect(before).toEqual(model.addsBos ? [model.bosTokenId] : []);
    expect([...before, ...tokenizer.encode('a river'), ...after]).toEqual(
      Array.from(model.tokenize('a river', { addSpecial: true, parseSpecial: false })),
    );
  });

  test('8 separate equal requests share one prefill', () => {
    withEngine((engine) => {
      const requests = Array.from({ length: 8 }, () => ask('Say hello.', { maxTokens: 2, ignoreEos: true }));
      const replies = run(engine, ...requests);
      const length = replies[0]!.completed!.usage.promptTokens;
      expect(replies.map((reply) => reply.completed?.usage.cachedTokens)).toEqual([
        0,
        ...Array.from({ length: 7 }, () => length - 1),
      ]);
      expect(engine.stats().computedTokens).toBe(length + 7 + 8);
    });
  });

  test('an adapter of zeros equals the base model, another changes it, and both leave the base as it was', () => {
    const zero = writeAdapter('zero', 0);
    const other = writeAdapter('other', 0.5);
    withEngine((engine) => {
      // Sequential and without shared prefixes, so that the batches have the same shapes.
      const replies = [null, { digest: 'zero', path: zero }, { digest: 'other', path: other }, null].map(
        (adapter, i) => {
          const options = { adapter, tenant: `tenant ${i}`, logprobs: 0, maxTokens: 12, ignoreEos: true };
          return run(engine, ask('Name a colour.', options))[0]!;
        },
      );
      const [base, same, different, again] = replies.map((reply) => logprobsOf(reply));
      const gap = (a: number[], b: number[]): number => Math.max(...a.map((value, i) => Math.abs(value - b[i]!)));
      console.log(
        `zero adapter: largest difference ${gap(base!, same!).toExponential(1)}; another: ${gap(base!, different!).toExponential(1)}, base again: ${gap(base!, again!).toExponential(1)}`,
      );
      expect([1, 3].map((i) => replies[i]!.tokenIds())).toEqual([1, 3].map(() => replies[0]!.tokenIds()));
      expect(gap(base!, same!)).toBeLessThan(0.005);
      expect(gap(base!, different!)).toBeGreaterThan(0.1);
      expect(gap(base!, again!)).toBeLessThan(0.005);
      expect(engine.stats().numAdapters).toBe(2);
    });
  });

  test('an invalid adapter file fails only its request', () => {
    withEngine((engine) => {
      const [bad, good] = run(
        engine,
        ask('Hi', { adapter: { digest: 'd', path: join(folder, 'missing.gguf') } }),
        ask('Hi', { maxTokens: 1 }),
      );
      expect(bad!.failed?.code).toBe('engine.adapter_unreadable');
      expect(good!.completed).toBeDefined();
    });
  });
});

/** These need many tokens, but no sense in them. */
describe('on the first layers of the model, in half precision', { timeout: 120_000 }, () => {
  let small: LlamaModel;
  let parts: { tokenizer: Tokenizer; template: ChatTemplate };
  beforeAll(() => {
    const path = join(folder, 'small.gguf');
    quantizeModel(testModel().small, path, 'f16', 1);
    small = LlamaModel.load(path);
    const ofSmall = Tokenizer.fromModel(small);
    parts = { tokenizer: ofSmall, template: new ChatTemplate(ofSmall, small.chatTemplate ?? '') };
  });
  afterAll(() => small?.close());

  test('seeded requests give the same tokens alone, next to others and after a cache hit, as far as the logits are the same', () => {
    const NUM_SEEDS = 6;
    const NUM_TOKENS = 40;
    const NUM_OTHERS = 11;
    const seeded = (seed: number, tenant: string, topic = 'the sea'): GenerateRequest =>
      ask(`Tell me about ${topic}.`, {
        tenant,
        maxTokens: NUM_TOKENS,
        ignoreEos: true,
        logprobs: 0,
        sampling: { temperature: 1, seed: BigInt(1000 * seed) },
      });
    const seeds = Array.from({ length: NUM_SEEDS }, (_, i) => i);
    const runner = new LlamaRunner(small, { ...CONTEXT, contextTokens: 4096, maxSequences: 32 });
    const engine = engineOver(runner, {}, parts);
    const alone = seeds.map((seed) => run(engine, seeded(seed, `alone ${seed}`))[0]!);
    const again = seeds.map((seed) => run(engine, seeded(seed, `again ${seed}`))[0]!);
    const cached = seeds.map((seed) => run(engine, seeded(seed, `alone ${seed}`))[0]!);
    const others = Array.from({ length: NUM_OTHERS }, (_, i) => seeded(100 + i, 'others', `the number ${i}`));
    const beside = run(engine, ...seeds.map((seed) => seeded(seed, `beside ${seed}`)), ...others).slice(0, NUM_SEEDS);
    engine.close();

    expect(cached[0]!.started!.cachedTokens).toBeGreaterThan(20);
    for (const [name, replies] of Object.entries({ again, 'after a cache hit': cached, 'beside 16 others': beside })) {
      let largest = 0;
      const lengths = replies.map((reply, i) => {
        const parted = reply.tokenIds().findIndex((id, at) => id !== alone[i]!.tokenIds()[at]);
        const length = parted < 0 ? NUM_TOKENS : parted;
        for (let at = 0; at < length; at++)
          largest = Math.max(largest, Math.abs(logprobsOf(reply)[at]! - logprobsOf(alone[i]!)[at]!));
        return length;
      });
      console.log(
        `seeded, ${name}: the first ${lengths.join(', ')} of ${NUM_TOKENS} tokens are the same; until then logprobs differ by at most ${largest.toExponential(1)}`,
      );
      // Other batch shapes use other kernels. The random numbers are the same, so replies differ only after a
      // draw that close.
      expect(largest).toBeLessThan(0.05);
      expect(lengths.reduce((a, b) => a + b)).toBeGreaterThan((NUM_SEEDS * NUM_TOKENS) / 2);
    }
    expect(again.map((reply) => reply.tokenIds())).toEqual(alone.map((reply) => reply.tokenIds()));
  });

  test('a preempted sequence on the real cache gives the same text as without preemption', () => {
    const asked = (letter: string): GenerateRequest =>
      ask(`Write about ${letter}.`, { maxTokens: 90, ignoreEos: true });
    const runner = new LlamaRunner(small, { ...CONTEXT, contextTokens: 256 });
    const engine = engineOver(runner, {}, parts);
    const replies = run(engine, asked('ships'), asked('trains'), asked('rain'));
    expect(engine.stats().numPreemptions).toBeGreaterThan(0);
    engine.close();
    for (const [i, letter] of ['ships', 'trains', 'rain'].entries()) {
      const other = engineOver(new LlamaRunner(small, CONTEXT), {}, parts);
      const [alone] = run(other, asked(letter));
      other.close();
      const ids = replies[i]!.tokenIds();
      const twin = alone!.tokenIds();
      const same = ids.findIndex((id, at) => id !== twin[at]);
      console.log(`${letter}: ${same < 0 ? 'identical' : `identical up to token ${same}`} of ${ids.length}`);
      expect(ids).toHaveLength(90);
      // Greedy texts may differ if two logits are within rounding; the recomputed prefix before must be the
      // same.
      expect(same < 0 || same > 20).toBe(true);
    }
  });
});

/** A rank-2 adapter on the first layer's query projection; every entry of B is `value`. */
function writeAdapter(name: string, value: number): string {
  return writeTestAdapter(model, join(folder, `${name}.gguf`), value);
}

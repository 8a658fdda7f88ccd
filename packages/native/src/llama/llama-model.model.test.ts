import { closeSync, copyFileSync, mkdtempSync, openSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { testModel } from '../../../../tests/support/model.ts';
import { GgufFile, LlamaModel, llamaVersion } from '../index.ts';

const { base } = testModel();
const model = LlamaModel.load(base);
const folder = mkdtempSync(join(tmpdir(), 'model-'));
afterAll(() => model.close());

const PLAIN = { addSpecial: false, parseSpecial: false };

function bytesOf(ids: Int32Array): Uint8Array {
  return new Uint8Array(Buffer.concat([...ids].map((id) => model.tokenBytes(id))));
}

test('the loaded library is the pinned one', () => {
  expect(llamaVersion()).toBe('0.5.0-dev');
});

test('a model’s facts are those of its file', () => {
  using file = GgufFile.open(base);
  const fact = (key: string) => file.metadata.get(key);
  expect(model.architecture).toBe(fact('general.architecture'));
  expect(model.contextLength).toBe(fact('llama.context_length'));
  expect(model.embeddingLength).toBe(fact('llama.embedding_length'));
  expect(model.numLayers).toBe(fact('llama.block_count'));
  expect(model.eosTokenId).toBe(fact('tokenizer.ggml.eos_token_id'));
  expect(model.bosTokenId).toBe(fact('tokenizer.ggml.bos_token_id'));
  expect(model.chatTemplate).toBe(fact('tokenizer.chat_template'));
  expect(model.preTokenizer).toBe(fact('tokenizer.ggml.pre'));
  expect(model.vocabSize).toBe((fact('tokenizer.ggml.tokens') as string[]).length);
  expect(model.sizeBytes).toBe([...file.tensors.values()].reduce((sum, tensor) => sum + tensor.sizeBytes, 0));
  expect(model.metadata('general.architecture')).toBe('llama');
  expect(model.metadata('no.such.key')).toBeUndefined();
  expect(model.addsBos).toBe(false);
});

test('a known text becomes the pieces that the file’s vocabulary lists', () => {
  using file = GgufFile.open(base);
  const vocabulary = file.metadata.get('tokenizer.ggml.tokens') as string[];
  const ids = model.tokenize('Hello world, 42!', PLAIN);
  // Byte-level BPE writes a space as Ġ; smollm splits numbers into digits.
  expect([...ids].map((id) => vocabulary[id])).toEqual(['Hello', 'Ġworld', ',', 'Ġ', '4', '2', '!']);
  expect(Buffer.from(bytesOf(ids)).toString()).toBe('Hello world, 42!');
  expect(model.tokenize('', PLAIN)).toEqual(new Int32Array(0));
});

test('tokens of any text spell that text, less the bytes that no token has', () => {
  const known = new Set<number>();
  for (let id = 0; id < model.vocabSize; id++) for (const byte of model.tokenBytes(id)) known.add(byte);
  console.log(`${256 - known.size} bytes have no token`);
  expect(known.size).toBeGreaterThan(230);
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      expect(bytesOf(model.tokenize(text, PLAIN))).toEqual(
        new TextEncoder().encode(text).filter((byte) => known.has(byte)),
      );
    }),
    { numRuns: 300, examples: [['\0a\0'], ['<|im_start|>'], ['🙂'], ['\ufeff x'], ['\r\n\t ']] },
  );
});

test('control tokens come from text only on request', () => {
  const text = '<|im_start|>';
  expect([...model.tokenize(text, { addSpecial: false, parseSpecial: true })]).toEqual([1]);
  const plain = [...model.tokenize(text, PLAIN)];
  expect(plain.length).toBeGreaterThan(1);
  expect(plain.every((id) => model.tokenKind(id) === 'normal')).toBe(true);
});

test('kinds, bytes and ends of generation of the vocabulary', () => {
  using file = GgufFile.open(base);
  const types = file.metadata.get('tokenizer.ggml.token_type') as number[]; // 1 normal, 3 control
  for (let id = 0; id < model.vocabSize; id++) {
    expect(model.tokenKind(id)).toBe(types[id] === 3 ? 'control' : 'normal');
  }
  expect(Buffer.from(model.tokenBytes(1)).toString()).toBe('<|im_start|>');
  expect([0, 1, 2].filter((id) => model.isEndOfGeneration(id))).toContain(model.eosTokenId);
  expect(model.isEndOfGeneration(model.tokenize('a', PLAIN)[0]!)).toBe(false);
  expect(() => model.tokenBytes(model.vocabSize)).toThrow(/token 49152 is outside the vocabulary of 49152/);
  expect(() => model.tokenKind(-1)).toThrow(/token -1/);
});

test('the vocabulary by itself tokenises like the whole model', () => {
  using vocabulary = LlamaModel.load(base, { vocabOnly: true });
  const text = 'The quick brown fox.';
  expect(vocabulary.tokenize(text, PLAIN)).toEqual(model.tokenize(text, PLAIN));
});

test('progress is reported up to the end', () => {
  const fractions: number[] = [];
  LlamaModel.load(base, { onProgress: (fraction) => fractions.push(fraction) }).close();
  expect(fractions.length).toBeGreaterThan(1);
  expect(fractions).toEqual(fractions.toSorted((a, b) => a - b));
  expect(fractions.at(-1)).toBe(1);
});

test('an error in onProgress ends the load and comes through', () => {
  const reason = new Error('enough');
  const load = () =>
    LlamaModel.load(base, {
      onProgress: () => {
        throw reason;
      },
    });
  expect(load).toThrow(reason);
});

test('an unreadable model file gives llama.cpp’s reason', () => {
  const rejects = (path: string, reason: RegExp) =>
    expect(() => LlamaModel.load(path)).toThrow(
      expect.objectContaining({ code: 'native.model_unreadable', message: expect.stringMatching(reason) }),
    );
  rejects(join(folder, 'absent.gguf'), /No such file/);
  const text = join(folder, 'text.gguf');
  writeFileSync(text, 'not a model');
  rejects(text, /invalid magic/);
  const cut = join(folder, 'cut.gguf');
  copyFileSync(base, cut);
  truncateSync(cut, 50_000_000);
  rejects(cut, /corrupted or incomplete/);
  const corrupt = join(folder, 'corrupt.gguf');
  copyFileSync(base, corrupt);
  const descriptor = openSync(corrupt, 'r+');
  writeSync(descriptor, Buffer.alloc(64, 0xff), 0, 64, 16);
  closeSync(descriptor);
  rejects(corrupt, /./);
});

test('after close every use is an assertion, and closing again is nothing', () => {
  const closed = LlamaModel.load(base, { vocabOnly: true });
  closed.close();
  closed.close();
  expect(() => closed.tokenize('a', PLAIN)).toThrow('this LlamaModel is closed');
  expect(() => closed.tokenBytes(1)).toThrow('this LlamaModel is closed');
  expect(() => closed.metadata('general.name')).toThrow('this LlamaModel is closed');
});

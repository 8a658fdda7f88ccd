/** SentencePiece vocabularies (Gemma, Llama 2) against llama.cpp and against merging by definition. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaModel, writeGguf } from '@trainyard/native';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { Tokenizer } from './tokenizer.ts';

const CONTROL = ['<pad>', '<eos>', '<bos>', '<start_of_turn>', '<end_of_turn>'];
const UNKNOWN = '<unk>';
const USER_DEFINED = ['\n\n\n', '\n\n', '\t', '<b>', '</b>', '   '];
const BYTES = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
// Ordered by score; `é` and most characters have no piece and become bytes.
const PIECES = [
  '▁t he ▁a in er ▁the on re ▁w at en ▁o or it ing ▁in ab aba aa aaaa ▁▁ 日本 日本語 語 😀😀'.split(' '),
  ['.\n', '▁<', '>▁', 'of', '_of', '<s', 'turn>'],
  Array.from('▁abcdefghijklmnopqrstuvwxyzT<>_/.,0123456789\n日本😀'),
].flat();
const TOKENS = [...CONTROL, UNKNOWN, ...BYTES, ...USER_DEFINED, ...PIECES];
const FIRST_PIECE = TOKENS.length - PIECES.length;
const TYPES = TOKENS.map((text, id) => {
  if (id < CONTROL.length) return 3;
  if (text === UNKNOWN) return 2;
  if (id < CONTROL.length + 1 + BYTES.length) return 6;
  return id < FIRST_PIECE ? 4 : 1;
});

const directory = mkdtempSync(join(tmpdir(), 'trainyard-sentence-piece-'));
afterAll(() => rmSync(directory, { recursive: true }));

function loadVocabulary(addsSpace: boolean): LlamaModel {
  const path = join(directory, `${addsSpace}.gguf`);
  writeGguf(
    path,
    {
      'general.architecture': 'gemma3',
      'gemma3.context_length': { u32: 100_000 },
      'gemma3.embedding_length': { u32: 64 },
      'gemma3.block_count': { u32: 1 },
      'gemma3.attention.head_count': { u32: 1 },
      'gemma3.feed_forward_length': { u32: 64 },
      'gemma3.attention.layer_norm_rms_epsilon': 1e-6,
      'tokenizer.ggml.model': 'llama',
      'tokenizer.ggml.pre': 'default',
      'tokenizer.ggml.tokens': { array: { type: 'string', values: TOKENS } },
      'tokenizer.ggml.scores': {
        array: { type: 'f32', values: TOKENS.map((_, id) => Math.min(0, FIRST_PIECE - id)) },
      },
      'tokenizer.ggml.token_type': { array: { type: 'i32', values: TYPES } },
      'tokenizer.ggml.bos_token_id': { u32: TOKENS.indexOf('<bos>') },
      'tokenizer.ggml.eos_token_id': { u32: TOKENS.indexOf('<eos>') },
      'tokenizer.ggml.unknown_token_id': { u32: TOKENS.indexOf(UNKNOWN) },
      'tokenizer.ggml.padding_token_id': { u32: TOKENS.indexOf('<pad>') },
      'tokenizer.ggml.add_bos_token': true,
      'tokenizer.ggml.add_space_prefix': addsSpace,
    },
    [],
  );
  return LlamaModel.load(path, { vocabOnly: true });
}

/** Merges the adjacent pair of the best piece, leftmost first, until none is left; the rest become bytes. */
function mergedByDefinition(text: string): number[] {
  const symbols = Array.from(text.replaceAll(' ', '▁'));
  for (;;) {
    const ranks = symbols.slice(1).map((right, i) => PIECES.indexOf(symbols[i]! + right));
    const best = Math.min(...ranks.filter((rank) => rank >= 0));
    if (best === Infinity) break;
    const at = ranks.indexOf(best);
    symbols.splice(at, 2, symbols[at]! + symbols[at + 1]!);
  }
  return symbols.flatMap((symbol) =>
    PIECES.includes(symbol)
      ? [FIRST_PIECE + PIECES.indexOf(symbol)]
      : Array.from(Buffer.from(symbol), (byte) => TOKENS.indexOf(BYTES[byte]!)),
  );
}

/** Cuts at user-defined tokens; the longest are taken first. */
function encodedByDefinition(text: string, addsSpace: boolean, isAfterSpecial = true): number[] {
  const found = USER_DEFINED.toSorted((a, b) => b.length - a.length).find((token) => text.includes(token));
  if (text === '') return [];
  if (found === undefined) return mergedByDefinition(addsSpace && isAfterSpecial ? ` ${text}` : text);
  const at = text.indexOf(found);
  return [
    ...encodedByDefinition(text.slice(0, at), addsSpace, isAfterSpecial),
    TOKENS.indexOf(found),
    ...encodedByDefinition(text.slice(at + found.length), addsSpace),
  ];
}

const PARTS = [
  'the ',
  ' water',
  'in',
  'aba',
  'aaaaa',
  ' ',
  '  ',
  '    ',
  '\n',
  '\n\n',
  '\n\n\n\n',
  '\t',
  '\r\n',
].concat(
  ['. ', '0042', '<b>', '</b>', '<', '_of_', 'turn>', '日本語', '本', '😀', '😀😀', '👩‍👩‍👧', 'é', 'e\u0301'],
  ['\u00a0', '\ufeff', '\0', '\x7f'],
);
const SPECIAL_PARTS = [...PARTS, ...CONTROL, '<end_of', '<unused'];
const textOf = (parts: readonly string[]) =>
  fc.array(fc.oneof(fc.constantFrom(...parts), fc.string({ unit: 'grapheme', maxLength: 3 })), { maxLength: 12 });

describe.each([false, true])('with a space before the text: %s', (addsSpace) => {
  const model = loadVocabulary(addsSpace);
  const tokenizer = Tokenizer.fromModel(model);
  afterAll(() => model[Symbol.dispose]());

  test('1,000 texts have the ids of merging by definition, and decode to themselves', () => {
    fc.assert(
      fc.property(textOf(PARTS), (parts) => {
        const text = parts.join('').toWellFormed();
        const ids = tokenizer.encode(text);
        expect({ text, ids: [...ids] }).toEqual({ text, ids: encodedByDefinition(text, addsSpace) });
        // The character for a space decodes to a space. A space in front of later fragments is not dropped again.
        if (!addsSpace) expect(tokenizer.decode(ids)).toBe(text.replaceAll('▁', ' '));
      }),
      { numRuns: 1000 },
    );
  });

  test('1,000 texts with control tokens have the ids of llama.cpp, and none as plain text', () => {
    fc.assert(
      fc.property(textOf(SPECIAL_PARTS), (parts) => {
        const text = parts.join('').toWellFormed();
        const expected = model.tokenize(text, { addSpecial: false, parseSpecial: true });
        expect({ text, ids: tokenizer.encodeWithSpecial(text) }).toEqual({ text, ids: expected });
        expect([...tokenizer.encode(text)].filter((id) => tokenizer.isControl(id))).toEqual([]);
      }),
      { numRuns: 1000 },
    );
  });

  test('one long word', () => {
    for (const word of ['a', 'é', ' ', '😀']) {
      const text = word.repeat(20_000);
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    }
  });
});

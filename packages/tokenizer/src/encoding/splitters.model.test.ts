import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaModel, writeGguf } from '@trainyard/native';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { createBytePairEncoder, plainEncoderOf } from './plain-encoder.ts';
import { SPLITTER_NAMES, splitterOf } from './splitters.ts';

const TEXTS = [
  "Hello World's  isn't I'LL he'D  12345 x1y22 3.14\n\n\n  foo\tbar \r\n\r\n x  ",
  '!!??$$++<=>^~|`` foo_bar(x)->y; //comment\n\t\tif (a&&b) {}',
  "camelCaseWORDSAndMore HTTPServer iPhone's 'S's don'T",
  'naïve Ünïcödé ÉCOLE ǅ 日本語テキスト、漢字。한국어 테스트 Привет ไทย ①②³½ Ⅷ٣٤ 👩‍👩‍👧‍👦',
  '    ',
  ' \n \n',
];
// Marks, wide spaces, and the case of letters beyond ASCII: for these llama.cpp's std::regex patterns are
// approximate.
const EXACT_TEXTS = ['हिन्दी नमस्ते e\u0301', 'a\u0085b\ufeffc\u00a0d\u3000e\u200bf g'];
const UNITS = Array.from(" \n\t\r1a2bZ'sT.,!$_(){}漢あ한😀²٣");
const EXACT_UNITS = [...UNITS, ...Array.from('éЖΩǅ\u0301\u00a0\u0085\u3000\ufeff')];

// Every pair of bytes in the texts is a token: the encoding shows where words end, without a vocabulary file.
const BYTES = (() => {
  let extra = 0;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae ? byte : 0x100 + extra++,
    ),
  );
})();
const USED = [...new Set(Buffer.from([...TEXTS, ...EXACT_TEXTS, ...EXACT_UNITS].join('')))].map(
  (byte) => BYTES[byte] ?? '',
);
const PAIRS = USED.flatMap((left) => USED.map((right) => [left, right] as const));
const TOKENS = [...BYTES, ...PAIRS.map(([left, right]) => left + right), '<e>'];

const directory = mkdtempSync(join(tmpdir(), 'trainyard-splitters-'));
afterAll(() => rmSync(directory, { recursive: true }));

function loadVocabulary(splitter: string): LlamaModel {
  const path = join(directory, 'vocabulary.gguf');
  const strings = (values: string[]) => ({ array: { type: 'string' as const, values } });
  const end = { u32: TOKENS.length - 1 };
  writeGguf(
    path,
    {
      'general.architecture': 'llama',
      'llama.context_length': { u32: 8192 },
      'llama.embedding_length': { u32: 64 },
      'llama.block_count': { u32: 1 },
      'llama.attention.head_count': { u32: 1 },
      'llama.feed_forward_length': { u32: 64 },
      'llama.attention.layer_norm_rms_epsilon': 1e-5,
      'llama.rope.dimension_count': { u32: 64 },
      'tokenizer.ggml.model': 'gpt2',
      'tokenizer.ggml.pre': splitter,
      'tokenizer.ggml.tokens': strings(TOKENS),
      'tokenizer.ggml.merges': strings(PAIRS.map((pair) => pair.join(' '))),
      'tokenizer.ggml.token_type': { array: { type: 'i32', values: TOKENS.map((text) => (text === '<e>' ? 3 : 1)) } },
      'tokenizer.ggml.bos_token_id': end,
      'tokenizer.ggml.eos_token_id': end,
      'tokenizer.ggml.add_bos_token': false,
    },
    [],
  );
  return LlamaModel.load(path, { vocabOnly: true });
}

describe.each(SPLITTER_NAMES)('%s', (name) => {
  test('splits as llama.cpp does', () => {
    using model = loadVocabulary(name);
    const encoder = createBytePairEncoder(model, name);
    const check = (text: string) => {
      expect({ text, ids: encoder.encode(text) }).toEqual({
        text,
        ids: model.tokenize(text, { addSpecial: false, parseSpecial: false }),
      });
    };
    const isExact = splitterOf(name)?.isSafeInLlamaCpp === true;
    for (const text of [...TEXTS, ...(isExact ? EXACT_TEXTS : [])]) check(text);
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...(isExact ? EXACT_UNITS : UNITS)), maxLength: 40 }), check),
      { numRuns: 60 },
    );
    // Only if called safe: otherwise one long word would end this process.
    if (isExact) for (const character of ['a', ' ', '.', '漢']) check(character.repeat(20_000));
  });
});

test('an unsafe splitter is not given to the native library', () => {
  using model = loadVocabulary('deepseek-coder');
  const encode = plainEncoderOf(model);
  expect(encode('a'.repeat(100_000))).toHaveLength(50_000); // std::regex overflows the stack at a tenth of this
  expect([...encode('hi 12')]).toEqual([...model.tokenize('hi 12', { addSpecial: false, parseSpecial: false })]);
});

test('an unverified splitter is refused by name', () => {
  using model = loadVocabulary('superbpe');
  expect(() => plainEncoderOf(model)).toThrow(
    expect.objectContaining({ code: 'tokenizer.unknown_vocabulary', message: expect.stringContaining('"superbpe"') }),
  );
});

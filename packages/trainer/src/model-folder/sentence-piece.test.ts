import { expect, test } from 'vitest';
import { tokenizerJson } from '../export/tokenizer-json.ts';
import { sentencePieceMetadata } from './sentence-piece.ts';

const BYTES = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
const TOKENS = ['<unk>', '</s>', ...BYTES, '▁', 'a', 'b', 'ab', '▁ab', 'aba', 'abab', '<tag>'];
const TYPES = TOKENS.map((token) => (token === '</s>' ? 3 : token === '<tag>' ? 4 : 1));
const MERGES = [
  ['a', 'b'],
  ['▁', 'ab'],
  ['ab', 'a'],
  ['ab', 'ab'],
  ['aba', 'b'],
] as const;
const SPACES = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };

const metadataOf = (tokenizer: object, merges: readonly (readonly [string, string])[] = MERGES) =>
  sentencePieceMetadata({ normalizer: SPACES, ...tokenizer }, merges, { tokens: TOKENS, types: TYPES, unknown: 0 });

const listOf = (metadata: ReturnType<typeof metadataOf>, key: string): unknown[] =>
  (metadata[`tokenizer.ggml.${key}`] as { array: { values: unknown[] } }).array.values;

test('the rank of a merged token is its score, and unreachable tokens are below', () => {
  const metadata = metadataOf({});
  const scores = listOf(metadata, 'scores');
  expect(['ab', '▁ab', 'abab', 'a', '<tag>'].map((token) => scores[TOKENS.indexOf(token)])).toEqual([
    -1, -2, -4, -5, -5,
  ]);
  const types = listOf(metadata, 'token_type');
  expect(['<unk>', '</s>', '<0x0A>', 'ab', '<tag>'].map((token) => types[TOKENS.indexOf(token)])).toEqual([
    2, 3, 6, 1, 4,
  ]);
});

test.each([
  ['none', {}, false],
  [
    'of the normalizer',
    { normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, SPACES] } },
    true,
  ],
  ['always', { normalizer: null, pre_tokenizer: { type: 'Metaspace', prepend_scheme: 'always', split: false } }, true],
  ['never', { normalizer: null, pre_tokenizer: { type: 'Metaspace', prepend_scheme: 'never', split: false } }, false],
])('a space before a text: %s', (_name, tokenizer, hasPrefix) => {
  expect(metadataOf(tokenizer)['tokenizer.ggml.add_space_prefix']).toBe(hasPrefix);
});

test.each<[string, object, readonly (readonly [string, string])[], RegExp]>([
  ['a missing split', {}, MERGES.slice(0, -1), /for the token "abab" are not those of SentencePiece/],
  ['merges of a token apart', {}, [...MERGES, ['a', 'b']], /for the token "ab" are not those of SentencePiece/],
  ['a merge to no token', {}, [...MERGES, ['b', 'a']], /merges "b" and "a", which are no tokens together/],
  ['another normalizer', { normalizer: { type: 'NFKC' } }, MERGES, /normalizer "NFKC" .* SentencePiece's BPE/],
  [
    'no rule for spaces',
    { normalizer: null, pre_tokenizer: { type: 'ByteLevel' } },
    MERGES,
    /pre-tokenizer "ByteLevel"/,
  ],
  [
    'a space before the first part only',
    { normalizer: null, pre_tokenizer: { type: 'Metaspace', prepend_scheme: 'first', split: false } },
    MERGES,
    /`prepend_scheme`/,
  ],
])('%s is refused', (_name, tokenizer, merges, message) => {
  expect(() => metadataOf(tokenizer, merges)).toThrow(message);
});

test('an export has the merges, the rules for spaces and the added tokens again', () => {
  const metadata = new Map(
    Object.entries(metadataOf({})).map(([key, value]) => [
      key,
      typeof value === 'object' && value !== null && 'array' in value ? [...value.array.values] : value,
    ]),
  ) as Parameters<typeof tokenizerJson>[0]['metadata'];
  expect(tokenizerJson({ metadata }, null)).toMatchObject({
    normalizer: { normalizers: [SPACES] },
    model: { byte_fallback: true, unk_token: '<unk>', merges: MERGES, vocab: { abab: TOKENS.indexOf('abab') } },
    added_tokens: [
      { content: '<unk>', special: true },
      { content: '</s>', special: true },
      { content: '<tag>', special: false },
    ],
  });
});

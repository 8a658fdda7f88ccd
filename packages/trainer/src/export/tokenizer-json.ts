import type { GgufFile, GgufValue } from '@trainyard/native';
import { splitterPatterns } from '@trainyard/tokenizer';
import { splitsOf } from '../model-folder/sentence-piece.ts';

/** `tokenizer.ggml.token_type` */
const [NORMAL, UNKNOWN, CONTROL, USER_DEFINED] = [1, 2, 3, 4];
/** SentencePiece's sign for a space. */
const SPACE = '▁';

interface StartToken {
  readonly id: number;
  readonly text: string;
}

/**
 * tokenizer.json of the tokenizers library.
 *
 * @param startToken put before every text; null: none
 * @returns null for a vocabulary that is neither byte-level BPE nor SentencePiece's, or that the library cannot express
 */
export function tokenizerJson({ metadata }: Pick<GgufFile, 'metadata'>, startToken: StartToken | null): object | null {
  switch (metadata.get('tokenizer.ggml.model')) {
    case 'gpt2':
      return byteLevelJson(metadata, startToken);
    case 'llama':
      return sentencePieceJson(metadata, startToken);
    default:
      return null;
  }
}

type Metadata = GgufFile['metadata'];

function byteLevelJson(metadata: Metadata, startToken: StartToken | null): object | null {
  const splitter = splitterPatterns(String(metadata.get('tokenizer.ggml.pre') ?? 'default'));
  const tokens = strings(metadata.get('tokenizer.ggml.tokens'));
  const merges = strings(metadata.get('tokenizer.ggml.merges'));
  const kinds = metadata.get('tokenizer.ggml.token_type');
  if (splitter === null || tokens === null || merges === null || !Array.isArray(kinds)) return null;
  const vocabulary = new Map(tokens.map((token, id) => [token, id]));
  // The file cannot distinguish ids with the same text.
  if (vocabulary.size !== tokens.length) return null;
  return {
    ...COMMON,
    added_tokens: addedTokens(vocabulary, kinds),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        ...splitter.patterns.map((pattern) => ({
          type: 'Split',
          pattern: { Regex: pattern },
          behavior: 'Isolated',
          invert: false,
        })),
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    post_processor: startToken === null ? null : startsWith(startToken),
    decoder: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: splitter.prefersWholeWords,
      vocab: Object.fromEntries(vocabulary),
      merges,
    },
  };
}

const COMMON = { version: '1.0', truncation: null, padding: null };

function addedTokens(vocabulary: ReadonlyMap<string, number>, kinds: readonly GgufValue[]): object[] {
  return [...vocabulary]
    .filter(([, id]) => [UNKNOWN, CONTROL, USER_DEFINED].includes(Number(kinds[id])))
    .map(([content, id]) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: kinds[id] !== USER_DEFINED,
    }));
}

/** Every split of a token into two others is a merge, in the order of scores. */
function sentencePieceJson(metadata: Metadata, startToken: StartToken | null): object | null {
  const tokens = strings(metadata.get('tokenizer.ggml.tokens'));
  const [scores, kinds] = ['scores', 'token_type'].map((key) => metadata.get(`tokenizer.ggml.${key}`));
  if (tokens === null || !Array.isArray(scores) || !Array.isArray(kinds)) return null;
  const vocabulary = new Map(tokens.map((token, id) => [token, id]));
  const usesOtherSpaces = metadata.get('tokenizer.ggml.remove_extra_whitespaces') === true;
  if (vocabulary.size !== tokens.length || usesOtherSpaces) return null;
  const merged = tokens
    .map((token, id) => ({ token, score: Number(scores[id]) }))
    .filter(({ token }, id) => kinds[id] === NORMAL && Array.from(token).length > 1)
    .toSorted((a, b) => b.score - a.score);
  // Among equal scores SentencePiece takes the leftmost, the library a fixed one.
  if (merged.some(({ score }, i) => score === merged[i - 1]?.score)) return null;
  const names = new Set(merged.map(({ token }) => token));
  const hasPrefix = metadata.get('tokenizer.ggml.add_space_prefix') !== false;
  const replace = (from: string, to: string) => ({ type: 'Replace', pattern: { String: from }, content: to });
  const unknown = kinds.indexOf(UNKNOWN!);
  return {
    ...COMMON,
    added_tokens: addedTokens(vocabulary, kinds),
    normalizer: {
      type: 'Sequence',
      normalizers: [...(hasPrefix ? [{ type: 'Prepend', prepend: SPACE }] : []), replace(' ', SPACE)],
    },
    pre_tokenizer: null,
    post_processor: startToken === null ? null : startsWith(startToken),
    decoder: {
      type: 'Sequence',
      decoders: [
        replace(SPACE, ' '),
        { type: 'ByteFallback' },
        { type: 'Fuse' },
        ...(hasPrefix ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: tokens[unknown] ?? null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: true,
      ignore_merges: false,
      vocab: Object.fromEntries(vocabulary),
      merges: merged.flatMap(({ token }) =>
        splitsOf(token, names).filter((halves) => halves.every((half) => vocabulary.has(half))),
      ),
    },
  };
}

function startsWith({ id, text }: { id: number; text: string }): object {
  const start = { SpecialToken: { id: text, type_id: 0 } };
  const sequence = (name: 'A' | 'B', type_id: number) => ({ Sequence: { id: name, type_id } });
  return {
    type: 'TemplateProcessing',
    single: [start, sequence('A', 0)],
    pair: [start, sequence('A', 0), { SpecialToken: { id: text, type_id: 1 } }, sequence('B', 1)],
    special_tokens: { [text]: { id: text, ids: [id], tokens: [text] } },
  };
}

function strings(value: GgufValue | undefined): string[] | null {
  return Array.isArray(value) && value.every((element) => typeof element === 'string') ? value : null;
}

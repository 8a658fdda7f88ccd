import type { GgufFile, GgufValue } from '@trainyard/native';
import { splitterPatterns } from '@trainyard/tokenizer';

/** `tokenizer.ggml.token_type` */
const CONTROL = 3;
const USER_DEFINED = 4;

/**
 * tokenizer.json of the tokenizers library.
 *
 * @param startToken put before every text; null: none
 * @returns null for a vocabulary that is not byte-level BPE, or a splitter that the library cannot express
 */
export function tokenizerJson(source: GgufFile, startToken: { id: number; text: string } | null): object | null {
  const { metadata } = source;
  if (metadata.get('tokenizer.ggml.model') !== 'gpt2') return null;
  const splitter = splitterPatterns(String(metadata.get('tokenizer.ggml.pre') ?? 'default'));
  const tokens = strings(metadata.get('tokenizer.ggml.tokens'));
  const merges = strings(metadata.get('tokenizer.ggml.merges'));
  const kinds = metadata.get('tokenizer.ggml.token_type');
  if (splitter === null || tokens === null || merges === null || !Array.isArray(kinds)) return null;
  const vocabulary = new Map(tokens.map((token, id) => [token, id]));
  // The file cannot distinguish ids with the same text.
  if (vocabulary.size !== tokens.length) return null;
  const added = [...vocabulary].filter(([, id]) => kinds[id] === CONTROL || kinds[id] === USER_DEFINED);
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: added.map(([content, id]) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: kinds[id] === CONTROL,
    })),
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

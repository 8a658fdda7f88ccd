import type { LlamaModel } from '@trainyard/native';
import type { EncodedFragments } from './encoded-fragments.ts';
import { plainEncoderOf } from './plain-encoder.ts';
import { SpecialSpacing } from './special-spacing.ts';
import { SpecialTokens } from './special-tokens.ts';
import { Utf8StreamDecoder, type StreamDecoder } from './stream-decoder.ts';
import { TokenKinds } from './token-kinds.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { Vocabulary } from '../contract/vocabulary.ts';

export interface TokenizerOptions {
  /** Text → ids without control tokens. Default: the vocabulary's own `tokenize`. */
  encodePlain?: (text: string) => Int32Array;
  /**
   * Longest accepted text, UTF-8 bytes. Default: context length × longest token, beyond which no text can fit; 16
   * MiB if unknown.
   */
  maxTextBytes?: number;
  /** True if the encoder prepends a space to the text, so that decoding drops one. Default: false. */
  dropsLeadingSpace?: boolean;
}

// Needed if the context length is unknown (a model loaded only for its vocabulary): 16 MiB take some seconds.
const DEFAULT_MAX_TEXT_BYTES = 16 * 1024 * 1024;

/** Stateless; creating it takes longer than using it. */
const UTF8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** Text ↔ token ids of one vocabulary. Immutable; safe to share. */
export class Tokenizer {
  readonly vocabSize: number;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number;
  /** Ids that end a generation (end of sequence, end of turn, …). */
  readonly endTokenIds: ReadonlySet<number>;
  readonly control: SpecialTokens;
  readonly maxTextBytes: number;
  readonly #kinds: TokenKinds;
  readonly #vocabulary: Vocabulary;
  readonly #spacing: SpecialSpacing;
  readonly #encodePlain: (text: string) => Int32Array;
  readonly #dropsLeadingSpace: boolean;

  /** @throws {TokenizerError} `tokenizer.unknown_vocabulary` if the vocabulary has no end token */
  constructor(vocabulary: Vocabulary, options: TokenizerOptions = {}) {
    const end = vocabulary.eosTokenId ?? vocabulary.eotTokenId;
    if (end === null) {
      throw new TokenizerError(
        'tokenizer.unknown_vocabulary',
        'the vocabulary names no end-of-sequence and no end-of-turn token',
      );
    }
    const kinds = new TokenKinds(vocabulary);
    this.vocabSize = vocabulary.vocabSize;
    this.bosTokenId = vocabulary.bosTokenId;
    this.eosTokenId = end;
    this.endTokenIds = kinds.endIds;
    this.control = new SpecialTokens(kinds.control);
    const { contextLength = 0 } = vocabulary;
    this.maxTextBytes =
      options.maxTextBytes ?? (contextLength > 0 ? contextLength * kinds.longestTokenBytes : DEFAULT_MAX_TEXT_BYTES);
    this.#kinds = kinds;
    this.#vocabulary = vocabulary;
    this.#spacing = new SpecialSpacing(vocabulary);
    this.#encodePlain =
      options.encodePlain ?? ((text) => vocabulary.tokenize(text, { addSpecial: false, parseSpecial: false }));
    this.#dropsLeadingSpace = options.dropsLeadingSpace ?? false;
  }

  /**
   * Tokenizer with llama.cpp's encoder if its splitter is safe on any text, else byte pair encoding here.
   *
   * @param model must stay open as long as the tokenizer is used
   * @throws {TokenizerError} `tokenizer.unknown_vocabulary` for an unknown splitter
   */
  static fromModel(model: LlamaModel): Tokenizer {
    const isSentencePiece = model.metadata('tokenizer.ggml.model') === 'llama';
    return new Tokenizer(model, {
      encodePlain: plainEncoderOf(model),
      dropsLeadingSpace: isSentencePiece && model.metadata('tokenizer.ggml.add_space_prefix') !== 'false',
    });
  }

  /**
   * No text gives control tokens; user-defined ones (such as `<think>`) are recognised.
   *
   * @throws {TokenizerError} `tokenizer.text_too_long`
   */
  encode(text: string): Int32Array {
    this.#checkLength(text);
    return this.#encodePlain(text.toWellFormed());
  }

  /** Encodes plain text that continues other text, without SentencePiece's leading space. @throws as `encode` */
  encodeAfter(text: string): Int32Array {
    if (!this.#dropsLeadingSpace) return this.encode(text);
    const guard = this.encode('\n');
    const ids = this.encode(`\n${text}`);
    return guard.every((id, index) => ids[index] === id) ? ids.slice(guard.length) : this.encode(text);
  }

  /** Encodes trusted text, with control tokens. Adds no token at either end. @throws as `encode` */
  encodeWithSpecial(text: string): Int32Array {
    return this.encodeFragments(text, (fragment) => fragment);
  }

  /**
   * Splits at control tokens, then encodes `restore(fragment)` of each plain fragment; restored text stays plain.
   *
   * @param last fragments of the previous text, with the same `restore`: unchanged ones are not encoded again.
   * Replaced by this text's.
   * @throws {TokenizerError} `tokenizer.text_too_long`
   */
  encodeFragments(text: string, restore: (fragment: string) => string, last?: EncodedFragments): Int32Array {
    this.#checkLength(text);
    const fragments = this.control.split(text);
    const spacing = fragments.map((fragment) =>
      fragment.kind === 'special' ? this.#spacing.of(fragment.id, this.tokenText(fragment.id)) : null,
    );
    const texts = fragments.map((fragment, index) => {
      if (fragment.kind === 'special') return null;
      let plain = fragment.text;
      if (spacing[index - 1]?.dropsAfter) plain = plain.trimStart();
      if (spacing[index + 1]?.dropsBefore) plain = plain.trimEnd();
      return plain;
    });
    const pieces = fragments.map((fragment, index) => {
      if (fragment.kind === 'special') return Int32Array.of(fragment.id);
      const plain = texts[index]!;
      return last?.at(index, plain) ?? this.encode(restore(plain));
    });
    last?.keep(texts, pieces);
    return concatenate(pieces);
  }

  /**
   * Exact bytes; a special token's are its text. A view, not a copy.
   *
   * @throws {RangeError} for an id outside the vocabulary
   */
  tokenBytes(id: number): Uint8Array {
    if (!Number.isInteger(id) || id < 0 || id >= this.vocabSize) {
      throw new RangeError(`token id must be in [0, ${this.vocabSize}), got ${id}`);
    }
    return this.#vocabulary.tokenBytes(id);
  }

  /** True for control and unknown tokens, which text alone never produces. */
  isControl(id: number): boolean {
    return this.#kinds.isControl(id);
  }

  /** Incomplete characters become U+FFFD. */
  tokenText(id: number): string {
    return UTF8.decode(this.tokenBytes(id));
  }

  /** @param options `skipSpecial` drops control tokens (default false) */
  decode(ids: Iterable<number>, options: { skipSpecial?: boolean } = {}): string {
    const decoder = this.createDecoder({ skipSpecial: options.skipSpecial ?? false });
    let text = '';
    for (const id of ids) text += decoder.push(id);
    return text + decoder.end();
  }

  createDecoder(options: { skipSpecial: boolean }): StreamDecoder {
    return new Utf8StreamDecoder({
      tokenBytes: (id) => this.tokenBytes(id),
      skips: (id) => options.skipSpecial && this.#kinds.isControl(id),
      dropsLeadingSpace: this.#dropsLeadingSpace,
    });
  }

  #checkLength(text: string): void {
    // A UTF-16 unit takes at most 3 bytes, so short texts need no count.
    if (text.length * 3 <= this.maxTextBytes) return;
    const sizeBytes = Buffer.byteLength(text);
    if (sizeBytes <= this.maxTextBytes) return;
    throw new TokenizerError(
      'tokenizer.text_too_long',
      `the text has ${sizeBytes} bytes; at most ${this.maxTextBytes} can fit into the context of this model`,
    );
  }
}

function concatenate(pieces: readonly Int32Array[]): Int32Array {
  const ids = new Int32Array(pieces.reduce((total, piece) => total + piece.length, 0));
  let offset = 0;
  for (const piece of pieces) {
    ids.set(piece, offset);
    offset += piece.length;
  }
  return ids;
}

import type { LlamaModel } from '@trainyard/native';
import { ControlTokens } from './control-tokens.ts';
import { Utf8StreamDecoder, type StreamDecoder } from './stream-decoder.ts';
import { TokenTable } from './token-table.ts';
import { TokenizerError } from './tokenizer-error.ts';
import type { Vocabulary } from './vocabulary.ts';

export interface TokenizerOptions {
  /** Text → ids without control tokens. Default: the vocabulary's own `tokenize`. */
  encodePlain?: (text: string) => Int32Array;
  /** Longest text accepted, UTF-8 bytes. Default: context length × longest token, beyond which no text can fit. */
  maxTextBytes?: number;
  /** The encoder puts a space in front of the text, so decoding drops one. Default: false. */
  dropsLeadingSpace?: boolean;
}

// A vocabulary without a context length still needs a bound: 16 MiB takes some seconds to tokenise.
const DEFAULT_MAX_TEXT_BYTES = 16 * 1024 * 1024;

/** Text ↔ token ids of one vocabulary. Immutable; safe to share. */
export class Tokenizer {
  readonly vocabSize: number;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number;
  /** Every id that ends a generation (end of sequence, end of turn, …). */
  readonly endTokenIds: ReadonlySet<number>;
  readonly control: ControlTokens;
  readonly maxTextBytes: number;
  readonly #table: TokenTable;
  readonly #encodePlain: (text: string) => Int32Array;
  readonly #dropsLeadingSpace: boolean;

  /** @throws {TokenizerError} `tokenizer.unknown_vocabulary` when the vocabulary names no end token */
  constructor(vocabulary: Vocabulary, options: TokenizerOptions = {}) {
    const end = vocabulary.eosTokenId ?? vocabulary.eotTokenId;
    if (end === null) {
      throw new TokenizerError('tokenizer.unknown_vocabulary', 'the vocabulary names no end-of-sequence and no end-of-turn token');
    }
    const table = new TokenTable(vocabulary);
    this.vocabSize = vocabulary.vocabSize;
    this.bosTokenId = vocabulary.bosTokenId;
    this.eosTokenId = end;
    this.endTokenIds = table.endIds;
    this.control = new ControlTokens(table.controlIds.map((id) => ({ id, text: Buffer.from(table.bytes(id)).toString() })));
    this.maxTextBytes =
      options.maxTextBytes ??
      (vocabulary.contextLength === undefined ? DEFAULT_MAX_TEXT_BYTES : vocabulary.contextLength * table.longestTokenBytes);
    this.#table = table;
    this.#encodePlain = options.encodePlain ?? ((text) => vocabulary.tokenize(text, { addSpecial: false, parseSpecial: false }));
    this.#dropsLeadingSpace = options.dropsLeadingSpace ?? false;
  }

  static fromModel(model: LlamaModel): Tokenizer {
    return new Tokenizer(model);
  }

  /**
   * Plain text → ids. Control tokens never appear, whatever the text says; user-defined ones (such as `<think>`) do.
   * @throws {TokenizerError} `tokenizer.text_too_long`
   */
  encode(text: string): Int32Array {
    this.#checkLength(text);
    return this.#encodePlain(text.toWellFormed());
  }

  /** Trusted text → ids; the texts of control tokens become those tokens. Adds no token at either end. @throws as `encode` */
  encodeWithSpecial(text: string): Int32Array {
    return this.encodeFragments(text, (fragment) => fragment);
  }

  /**
   * Splits at control tokens, then encodes what `restore` makes of each plain fragment: text that is put back there stays plain.
   * @throws {TokenizerError} `tokenizer.text_too_long`
   */
  encodeFragments(text: string, restore: (fragment: string) => string): Int32Array {
    this.#checkLength(text);
    const pieces: Int32Array[] = [];
    for (const fragment of this.control.split(text)) {
      pieces.push(fragment.kind === 'control' ? Int32Array.of(fragment.id) : this.encode(restore(fragment.text)));
    }
    return concatenate(pieces);
  }

  /** True bytes; a special token gives its text. A view, not a copy. @throws {RangeError} for an id outside the vocabulary */
  tokenBytes(id: number): Uint8Array {
    return this.#table.bytes(id);
  }

  /** True for control and unknown tokens: those that text alone never produces. */
  isControl(id: number): boolean {
    return this.#table.isControl(id);
  }

  /** The token as text; bytes that are no whole character read as U+FFFD. */
  tokenText(id: number): string {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(this.#table.bytes(id));
  }

  /** @param options `skipSpecial` leaves control tokens out (default false) */
  decode(ids: Iterable<number>, options: { skipSpecial?: boolean } = {}): string {
    const decoder = this.createDecoder({ skipSpecial: options.skipSpecial ?? false });
    let text = '';
    for (const id of ids) text += decoder.push(id);
    return text + decoder.end();
  }

  createDecoder(options: { skipSpecial: boolean }): StreamDecoder {
    return new Utf8StreamDecoder({
      tokenBytes: (id) => this.#table.bytes(id),
      skips: (id) => options.skipSpecial && this.#table.isControl(id),
      dropsLeadingSpace: this.#dropsLeadingSpace,
    });
  }

  #checkLength(text: string): void {
    // A UTF-16 unit is at most 3 bytes, so short texts need no count.
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

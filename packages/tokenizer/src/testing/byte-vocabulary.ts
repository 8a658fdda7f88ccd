import type { TokenKind } from '@trainyard/native';
import type { Vocabulary } from '../contract/vocabulary.ts';

const BYTE_TOKENS = 256;
const DEFAULT_CONTROL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const;

export interface ByteVocabularyOptions {
  /** Ids from 256 on. Default: `<|endoftext|>`, `<|im_start|>`, `<|im_end|>`. */
  controlTokens?: readonly string[];
  /** Recognised in any text, such as `<think>`; ids after the control tokens. Default: none. */
  userDefinedTokens?: readonly string[];
  /** One of `controlTokens`. Default: `<|im_end|>`. */
  endToken?: string;
  /** Default: 8192. */
  contextLength?: number;
}

/** A vocabulary for tests without a model file: one token per byte plus a few control tokens. */
export class ByteVocabulary implements Vocabulary {
  readonly vocabSize: number;
  readonly bosTokenId: number | null = null;
  readonly eosTokenId: number;
  readonly eotTokenId: number | null = null;
  readonly preTokenizer: string | undefined = undefined;
  readonly contextLength: number;
  readonly #specials: readonly { text: string; kind: 'control' | 'user_defined' }[];

  constructor(options: ByteVocabularyOptions = {}) {
    const control = options.controlTokens ?? DEFAULT_CONTROL_TOKENS;
    this.#specials = [
      ...control.map((text) => ({ text, kind: 'control' as const })),
      ...(options.userDefinedTokens ?? []).map((text) => ({ text, kind: 'user_defined' as const })),
    ];
    this.vocabSize = BYTE_TOKENS + this.#specials.length;
    this.contextLength = options.contextLength ?? 8192;
    this.eosTokenId = this.idOf(options.endToken ?? '<|im_end|>');
  }

  /** @throws {RangeError} if there is no such token */
  idOf(text: string): number {
    const index = this.#specials.findIndex((special) => special.text === text);
    if (index < 0) throw new RangeError(`the byte vocabulary has no token ${JSON.stringify(text)}`);
    return BYTE_TOKENS + index;
  }

  tokenize(text: string, options: { addSpecial: boolean; parseSpecial: boolean }): Int32Array {
    const pieces: ArrayLike<number>[] = [];
    let plainFrom = 0;
    for (const { index, at, length } of this.#found(text, options.parseSpecial)) {
      pieces.push(Buffer.from(text.slice(plainFrom, at)), [BYTE_TOKENS + index]);
      plainFrom = at + length;
    }
    pieces.push(Buffer.from(text.slice(plainFrom)));
    const ids = new Int32Array(pieces.reduce((sum, { length }) => sum + length, 0));
    let filled = 0;
    for (const piece of pieces) {
      ids.set(piece, filled);
      filled += piece.length;
    }
    return ids;
  }

  /** Special tokens, left to right; at the same place the vocabulary's first. */
  *#found(text: string, parsesControl: boolean): Generator<{ index: number; at: number; length: number }> {
    const ahead = this.#specials
      .map(({ text: own, kind }, index) => ({ index, own, kind, at: text.indexOf(own) }))
      .filter(({ kind, at }) => at >= 0 && (parsesControl || kind === 'user_defined'));
    for (let from = 0; ;) {
      let next: (typeof ahead)[number] | null = null;
      for (const one of ahead) {
        if (one.at >= 0 && one.at < from) one.at = text.indexOf(one.own, from);
        if (one.at >= 0 && (next === null || one.at < next.at)) next = one;
      }
      if (next === null) return;
      yield { index: next.index, at: next.at, length: next.own.length };
      from = next.at + next.own.length;
    }
  }

  tokenBytes(id: number): Uint8Array {
    const special = this.#specials[id - BYTE_TOKENS];
    return special === undefined ? Uint8Array.of(id) : Buffer.from(special.text);
  }

  tokenKind(id: number): TokenKind {
    return this.#specials[id - BYTE_TOKENS]?.kind ?? 'normal';
  }

  isEndOfGeneration(id: number): boolean {
    return id === this.eosTokenId || this.#specials[id - BYTE_TOKENS]?.text === '<|endoftext|>';
  }
}

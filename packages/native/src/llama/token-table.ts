import assert from 'node:assert';
import { library } from '../binding/library.ts';
import type { Pointer } from '../binding/structs.ts';

/** The role of a vocabulary entry; `control` tokens steer the model and are never part of a user's text. */
export type TokenKind = 'normal' | 'unknown' | 'control' | 'user_defined' | 'unused' | 'byte';

// llama_token_attr bits in order of precedence: an entry may have several.
const KIND_BITS: readonly [bit: number, kind: TokenKind][] = [
  [8, 'control'],
  [1, 'unknown'],
  [32, 'byte'],
  [16, 'user_defined'],
  [2, 'unused'],
  [4, 'normal'],
];
const KINDS = KIND_BITS.map(([, kind]) => kind);
const NORMAL = KINDS.indexOf('normal');

/** Read once, so that a lookup needs no call into C. */
export class TokenTable {
  readonly #bytes: Uint8Array;
  readonly #starts: Int32Array; // [V + 1], token i is bytes[starts[i]..starts[i + 1])
  readonly #kinds: Uint8Array; // [V], index into KINDS
  readonly #endsGeneration: Uint8Array; // [V]

  constructor(vocab: Pointer, vocabSize: number) {
    const llama = library();
    this.#starts = new Int32Array(vocabSize + 1);
    this.#kinds = new Uint8Array(vocabSize);
    this.#endsGeneration = new Uint8Array(vocabSize);
    let piece = new Uint8Array(256);
    let bytes = new Uint8Array(vocabSize * 8);
    let used = 0;
    for (let token = 0; token < vocabSize; token++) {
      let size = llama.tokenToPiece(vocab, token, piece, piece.length, 0, true);
      if (size < 0) {
        piece = new Uint8Array(-size);
        size = llama.tokenToPiece(vocab, token, piece, piece.length, 0, true);
      }
      if (used + size > bytes.length) {
        const grown = new Uint8Array(Math.max(bytes.length * 2, used + size));
        grown.set(bytes);
        bytes = grown;
      }
      bytes.set(piece.subarray(0, size), used);
      used += size;
      this.#starts[token + 1] = used;
      const attributes = llama.vocabAttributes(vocab, token);
      const kind = KIND_BITS.findIndex(([bit]) => (attributes & bit) !== 0);
      this.#kinds[token] = kind < 0 ? NORMAL : kind;
      this.#endsGeneration[token] = llama.vocabIsEog(vocab, token) ? 1 : 0;
    }
    this.#bytes = bytes.slice(0, used);
  }

  /** A view: copy it before changing it. */
  bytes(token: number): Uint8Array {
    this.#check(token);
    return this.#bytes.subarray(this.#starts[token], this.#starts[token + 1]);
  }

  kind(token: number): TokenKind {
    this.#check(token);
    return KINDS[this.#kinds[token] ?? NORMAL] ?? 'normal';
  }

  endsGeneration(token: number): boolean {
    this.#check(token);
    return this.#endsGeneration[token] === 1;
  }

  #check(token: number): void {
    if (!(token >= 0 && token < this.#kinds.length && Number.isInteger(token))) {
      assert.fail(`token ${token} is outside the vocabulary of ${this.#kinds.length}`);
    }
  }
}

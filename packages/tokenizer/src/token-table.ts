import type { Vocabulary } from './vocabulary.ts';

/**
 * Bytes and kinds of all tokens, copied out of the vocabulary once: a look-up then costs no foreign call.
 *
 * Built in one pass over the vocabulary (49,152 tokens: see README for the time), immutable afterwards.
 */
export class TokenTable {
  readonly size: number;
  /** Ids that text must not produce by itself (control and unknown kinds), ascending. */
  readonly controlIds: readonly number[];
  /** Ids matched as a whole inside any text (such as `<think>` or `<tool_call>`), ascending. */
  readonly userDefinedIds: readonly number[];
  /** All ids that end a generation. */
  readonly endIds: ReadonlySet<number>;
  readonly longestTokenBytes: number;
  readonly #bytes: Uint8Array; // all tokens, one after the other
  readonly #offsets: Uint32Array; // [V + 1]
  readonly #control: Uint8Array; // [V], 1 = control or unknown

  constructor(vocabulary: Vocabulary) {
    const size = vocabulary.vocabSize;
    const pieces: Uint8Array[] = [];
    const controlIds: number[] = [];
    const userDefinedIds: number[] = [];
    const endIds = new Set<number>();
    this.#offsets = new Uint32Array(size + 1);
    this.#control = new Uint8Array(size);
    let longest = 0;
    for (let id = 0; id < size; id++) {
      const piece = vocabulary.tokenBytes(id);
      pieces.push(piece);
      longest = Math.max(longest, piece.length);
      this.#offsets[id + 1] = (this.#offsets[id] ?? 0) + piece.length;
      const kind = vocabulary.tokenKind(id);
      if (kind === 'normal' || kind === 'byte') continue; // llama.cpp marks every end-of-generation token as special
      if (kind === 'control' || kind === 'unknown') {
        controlIds.push(id);
        this.#control[id] = 1;
      } else if (kind === 'user_defined') userDefinedIds.push(id);
      if (vocabulary.isEndOfGeneration(id)) endIds.add(id);
    }
    for (const id of [vocabulary.eosTokenId, vocabulary.eotTokenId]) if (id !== null && id >= 0) endIds.add(id);
    this.#bytes = Buffer.concat(pieces);
    this.size = size;
    this.controlIds = controlIds;
    this.userDefinedIds = userDefinedIds;
    this.endIds = endIds;
    this.longestTokenBytes = longest;
  }

  /** A view, not a copy: do not write to it. @throws {RangeError} when the id is outside the vocabulary */
  bytes(id: number): Uint8Array {
    if (!Number.isInteger(id) || id < 0 || id >= this.size) {
      throw new RangeError(`token id must be in [0, ${this.size}), got ${id}`);
    }
    return this.#bytes.subarray(this.#offsets[id], this.#offsets[id + 1]);
  }

  isControl(id: number): boolean {
    return this.#control[id] === 1;
  }
}

import type { KeptTokens } from '@trainyard/protocol/fields';

/**
 * Writer of the sets of tokens that could be drawn. Constraints repeat sets, so each is stored once: its ids or
 * the missing ones, whichever are fewer, as LEB128 steps (mostly one byte).
 *
 * Format: number of sets; for each 2 · length + (1 if it lists missing ids), then first id and steps; then for
 * each token the number of its set from 1, or 0 for the whole vocabulary.
 */
export class KeptTokensWriter {
  readonly #sets = new Map<string, number>();
  #setBytes: number[] = [];
  #tokenBytes: number[] = [];

  get sizeBytes(): number {
    return this.#setBytes.length + this.#tokenBytes.length;
  }

  /** @param kept null: the whole vocabulary */
  add(kept: KeptTokens | null): void {
    writeNumber(this.#tokenBytes, kept === null ? 0 : this.#numberOf(kept));
  }

  bytes(): Uint8Array {
    const count: number[] = [];
    writeNumber(count, this.#sets.size);
    return Uint8Array.from([...count, ...this.#setBytes, ...this.#tokenBytes]);
  }

  #numberOf({ isComplement, ids }: KeptTokens): number {
    const bytes: number[] = [];
    writeNumber(bytes, 2 * ids.length + Number(isComplement));
    let last = 0;
    for (const id of ids) {
      writeNumber(bytes, id - last);
      last = id;
    }
    const key = Buffer.from(bytes).toString('latin1');
    let number = this.#sets.get(key);
    if (number === undefined) {
      number = this.#sets.size + 1;
      this.#sets.set(key, number);
      for (const byte of bytes) this.#setBytes.push(byte);
    }
    return number;
  }
}

/**
 * @param numTokens of the choice
 * @returns `setOf`: [numTokens] index into `sets`, -1 = the whole vocabulary; null for malformed bytes
 */
export function readKeptTokens(
  bytes: Uint8Array,
  numTokens: number,
): { sets: readonly KeptTokens[]; setOf: Int32Array } | null {
  const reader = new NumberReader(bytes);
  const sets = Array.from({ length: Math.min(reader.next(), bytes.length) }, (): KeptTokens => {
    const header = reader.next();
    let last = 0;
    const ids = Int32Array.from(
      { length: Math.min(Math.floor(header / 2), bytes.length) },
      () => (last += reader.next()),
    );
    return { isComplement: header % 2 === 1, ids };
  });
  const setOf = Int32Array.from({ length: numTokens }, () => reader.next() - 1);
  if (!reader.isAtEnd || setOf.some((index) => index >= sets.length)) return null;
  return { sets, setOf };
}

export function isKept({ isComplement, ids }: KeptTokens, id: number): boolean {
  return (ids[lowerBound(ids, id)] === id) !== isComplement;
}

/** First index whose id is at least `id`; the length if none. */
export function lowerBound(ids: Int32Array, id: number): number {
  let low = 0;
  let high = ids.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ids[middle]! < id) low = middle + 1;
    else high = middle;
  }
  return low;
}

function writeNumber(bytes: number[], value: number): void {
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  bytes.push(value);
}

class NumberReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** True if all bytes were read, and none beyond the end requested. */
  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  next(): number {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) {
        this.#at = Infinity;
        return 0;
      }
      value += (byte % 128) * factor;
      if (byte < 128) return value;
    }
  }
}

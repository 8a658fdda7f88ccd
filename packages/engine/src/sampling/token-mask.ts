/** One bit a token of the vocabulary, 1 = allowed; bit `id % 32` of word `id / 32`. */
export type TokenMask = Uint32Array; // [ceil(V / 32)]

const ALL = 0xffff_ffff;

export function createTokenMask(vocabSize: number): TokenMask {
  return new Uint32Array(Math.ceil(vocabSize / 32));
}

export function allow(mask: TokenMask, ids: Iterable<number>): void {
  for (const id of ids) mask[id >>> 5]! |= 1 << (id & 31);
}

/** True when every allowed id is one of `ids`. */
export function allowsOnly(mask: TokenMask, ids: Iterable<number>): boolean {
  const rest = mask.slice();
  for (const id of ids) rest[id >>> 5]! &= ~(1 << (id & 31));
  return rest.every((word) => word === 0);
}

/**
 * Sets the logits of tokens that are not allowed to -Infinity, in place. Words without an allowed token, which most are, go by in runs.
 * @param row `[V]`
 */
export function maskRow(row: Float32Array, mask: TokenMask): void {
  const numWords = mask.length;
  for (let at = 0; at < numWords; at++) {
    const word = mask[at]!;
    if (word === ALL) continue;
    if (word === 0) {
      const first = at;
      while (at + 1 < numWords && mask[at + 1] === 0) at++;
      row.fill(-Infinity, first * 32, (at + 1) * 32);
      continue;
    }
    const start = at * 32;
    const end = Math.min(row.length, start + 32);
    for (let id = start, bits = word; id < end; id++, bits >>>= 1) if ((bits & 1) === 0) row[id] = -Infinity;
  }
}

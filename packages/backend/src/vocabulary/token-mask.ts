/** One bit per token of the vocabulary, 1 = allowed; bit `id % 32` of word `id / 32`. */
export type TokenMask = Uint32Array; // [ceil(V / 32)]

export function createTokenMask(vocabSize: number): TokenMask {
  return new Uint32Array(Math.ceil(vocabSize / 32));
}

export function allow(mask: TokenMask, ids: Iterable<number>): void {
  for (const id of ids) mask[id >>> 5]! |= 1 << (id & 31);
}

export function allows(mask: TokenMask, id: number): boolean {
  return ((mask[id >>> 5]! >>> (id & 31)) & 1) === 1;
}

/** True if every allowed id is one of `ids`. */
export function allowsOnly(mask: TokenMask, ids: Iterable<number>): boolean {
  const rest = mask.slice();
  for (const id of ids) rest[id >>> 5]! &= ~(1 << (id & 31));
  return rest.every((word) => word === 0);
}

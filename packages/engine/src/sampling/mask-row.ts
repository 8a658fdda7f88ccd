import type { TokenMask } from '@trainyard/backend';

const ALL = 0xffff_ffff;

/** Works in place. Words without an allowed token, the majority, are processed in runs. @param row `[V]` */
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

import type { PackedRow } from '../model/policy-model.ts';

/** Consecutive tokens of a row, each continuing the previous one. */
export interface RowChain {
  /** Half-open range of row indices. */
  readonly start: number;
  readonly end: number;
  /** Earlier chain from which it branches; -1 at a root. */
  readonly parent: number;
  /** Tokens of its sequence before it. */
  readonly depth: number;
}

/** A sequence has at most one chain per level; the first branch of a fork continues its parent's chain. */
export function rowChains({ parents, positions }: PackedRow): RowChain[] {
  const chains: { start: number; end: number; parent: number; depth: number }[] = [];
  const chainOf = new Int32Array(parents.length);
  for (const [token, before] of parents.entries()) {
    if (token === 0 || before !== token - 1) {
      const parent = before < 0 ? -1 : chainOf[before]!;
      chains.push({ start: token, end: token, parent, depth: positions[token]! });
    }
    chainOf[token] = chains.length - 1;
    chains.at(-1)!.end = token + 1;
  }
  return chains;
}

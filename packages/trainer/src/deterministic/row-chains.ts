import type { PackedRow } from '../model/policy-model.ts';

/** Consecutive tokens of a row of which each continues the one before it. */
export interface RowChain {
  /** Row indices: the first token, and the one behind the last. */
  readonly start: number;
  readonly end: number;
  /** The chain that it parts from, always an earlier one; -1 at a root. */
  readonly parent: number;
  /** Tokens of its sequence before it. */
  readonly depth: number;
}

/** The chains of a row's trie, in order. A sequence runs along one of each level; the first branch of a fork goes on in its parent's chain. */
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

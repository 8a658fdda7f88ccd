import type { PackedRow } from '../model/policy-model.ts';

/** Everything after the first `numPrompt` tokens is trained. */
export interface TinySequence {
  readonly tokenIds: readonly number[];
  readonly numPrompt: number;
}

/** One trie per group, adjacent in the row. Trained tokens have the order of `groups`. */
export function packTrie(groups: readonly (readonly TinySequence[])[]): PackedRow {
  const row = { tokenIds: [] as number[], positions: [] as number[], parents: [] as number[] };
  const trained = new Map<TinySequence, number[]>();
  /** Writes sequences that agree on their first `depth` tokens. */
  const write = (sequences: readonly TinySequence[], depth: number, parent: number): void => {
    const branches = Map.groupBy(
      sequences.filter((sequence) => sequence.tokenIds.length > depth),
      (sequence) => sequence.tokenIds[depth]!,
    );
    for (const [tokenId, branch] of branches) {
      const index = row.tokenIds.push(tokenId) - 1;
      row.positions.push(depth);
      row.parents.push(parent);
      for (const sequence of branch) {
        if (depth >= sequence.numPrompt) trained.set(sequence, [...(trained.get(sequence) ?? []), index]);
      }
      write(branch, depth + 1, index);
    }
  };
  for (const group of groups) write(group, 0, -1);
  const indices = groups.flat().flatMap((sequence) => trained.get(sequence) ?? []);
  return {
    tokenIds: Int32Array.from(row.tokenIds),
    positions: Int32Array.from(row.positions),
    parents: Int32Array.from(row.parents),
    sources: Int32Array.from(indices, (index) => row.parents[index]!),
    targets: Int32Array.from(indices, (index) => row.tokenIds[index]!),
  };
}

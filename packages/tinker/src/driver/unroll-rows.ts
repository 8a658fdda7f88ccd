import type { PackedRow } from '@trainyard/trainer';

/** A plain sequence of T tokens from a row's trie. */
export interface UnrolledSequence {
  readonly row: number;
  readonly tokens: Int32Array;
  /** [T] the token predicted after each token. */
  readonly targets: Int32Array;
  /** [T] index of the trained token in the row; -1: only context. */
  readonly trained: Int32Array;
}

/**
 * Unrolls rows for a server without tries: one sequence per path from a root to a leaf. Each trained token is in
 * exactly one sequence.
 */
export function unrollRows(rows: readonly PackedRow[]): UnrolledSequence[] {
  return rows.flatMap((row, index) => unrollRow(row, index));
}

function unrollRow(row: PackedRow, rowIndex: number): UnrolledSequence[] {
  const { parents, targets, sources } = row;
  const waiting = new Map<number, number[]>();
  sources.forEach((source, trained) => {
    const others = waiting.get(source);
    if (others === undefined) waiting.set(source, [trained]);
    else others.push(trained);
  });
  const inner = new Set(parents);
  const leaves = Array.from(parents.keys()).filter((node) => !inner.has(node));
  const sequences: UnrolledSequence[] = [];
  const unrollTo = (end: number): void => {
    const path = pathTo(row, end);
    const trained = path.map((node, place) => {
      const next = path[place + 1];
      const queue = waiting.get(node) ?? [];
      // Inside a sequence a token predicts the next one; its other predictions need a sequence that ends there.
      const at = next === undefined ? queue.length - 1 : queue.findIndex((i) => targets[i] === row.tokenIds[next]);
      return at < 0 ? -1 : queue.splice(at, 1)[0]!;
    });
    const length = trained.findLastIndex((i) => i >= 0) + 1;
    if (length === 0) return;
    sequences.push({
      row: rowIndex,
      tokens: Int32Array.from(path.slice(0, length), (node) => row.tokenIds[node]!),
      targets: Int32Array.from({ length }, (_, place) => {
        const i = trained[place]!;
        return i >= 0 ? targets[i]! : row.tokenIds[path[place + 1]!]!;
      }),
      trained: Int32Array.from(trained.slice(0, length)),
    });
  };
  for (const leaf of leaves) unrollTo(leaf);
  // Deepest first, because their paths can carry others.
  const rest = [...waiting.keys()].toSorted((a, b) => row.positions[b]! - row.positions[a]!);
  for (const node of rest) while (waiting.get(node)!.length > 0) unrollTo(node);
  return sequences;
}

function pathTo({ parents }: PackedRow, end: number): number[] {
  const path: number[] = [];
  for (let node = end; node >= 0; node = parents[node]!) path.push(node);
  return path.reverse();
}

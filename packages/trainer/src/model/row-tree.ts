/** Tokens before and after each token of a row, [T] each; negative: none. */
export interface RowTree {
  readonly parents: Int32Array;
  readonly firstChild: Int32Array;
  /** Next child of the same parent. */
  readonly nextSibling: Int32Array;
}

/** @param parents of a row, see `PackedRow` */
export function rowTree(parents: Int32Array): RowTree {
  const firstChild = new Int32Array(parents.length).fill(-1);
  const nextSibling = new Int32Array(parents.length).fill(-1);
  for (let token = parents.length - 1; token >= 0; token--) {
    const parent = parents[token]!;
    if (parent < 0) continue;
    nextSibling[token] = firstChild[parent]!;
    firstChild[parent] = token;
  }
  return { parents, firstChild, nextSibling };
}

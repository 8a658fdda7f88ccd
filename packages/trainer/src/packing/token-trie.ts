/**
 * Token sequences merged by their common prefixes: each distinct prefix is one node. With attention only among
 * ancestors, a node's activation equals that of the token in its own sequence, so shared parts (prompt, earlier
 * turns, branches, a system prompt of several groups) are computed once.
 */
export class TokenTrie {
  readonly #tokens: number[] = [];
  readonly #parents: number[] = [];
  readonly #children = new Map<number, number>();

  get size(): number {
    return this.#tokens.length;
  }

  /** Nodes that `add` would create. */
  numNewNodes(tokenIds: Int32Array): number {
    let node = -1;
    for (let i = 0; i < tokenIds.length; i++) {
      const child = this.#children.get(childKey(node, tokenIds[i]!));
      if (child === undefined) return tokenIds.length - i;
      node = child;
    }
    return 0;
  }

  /** @returns node of each token, in order of creation; see `flatten` */
  add(tokenIds: Int32Array): Int32Array {
    let node = -1;
    return tokenIds.map((tokenId) => {
      const key = childKey(node, tokenId);
      let child = this.#children.get(key);
      if (child === undefined) {
        child = this.#tokens.length;
        this.#tokens.push(tokenId);
        this.#parents.push(node);
        this.#children.set(key, child);
      }
      node = child;
      return child;
    });
  }

  /**
   * Depth-first order, children in order of creation.
   *
   * @returns `tokenIds`, `positions` (depth, 0 at a root) and `parents` (row index, -1 at a root), each [size];
   * and `rowIndex`, [size], from node to place in that order
   */
  flatten(): { tokenIds: Int32Array; positions: Int32Array; parents: Int32Array; rowIndex: Int32Array } {
    const size = this.size;
    const childrenOf = Array.from({ length: size + 1 }, (): number[] => []); // [size]: the roots
    this.#parents.forEach((parent, node) => childrenOf[parent === -1 ? size : parent]!.push(node));
    const tokenIds = new Int32Array(size);
    const positions = new Int32Array(size);
    const parents = new Int32Array(size);
    const rowIndex = new Int32Array(size);
    const stack = childrenOf[size]!.toReversed(); // no recursion: a sequence is as deep as it is long
    for (let at = 0; stack.length > 0; at++) {
      const node = stack.pop()!;
      const parent = this.#parents[node]!;
      rowIndex[node] = at;
      tokenIds[at] = this.#tokens[node]!;
      parents[at] = parent === -1 ? -1 : rowIndex[parent]!;
      positions[at] = parent === -1 ? 0 : positions[parents[at]!]! + 1;
      for (let i = childrenOf[node]!.length - 1; i >= 0; i--) stack.push(childrenOf[node]![i]!);
    }
    return { tokenIds, positions, parents, rowIndex };
  }
}

/** Exact while node · 2^21 + token stays below 2^53. */
function childKey(node: number, tokenId: number): number {
  return (node + 1) * 2 ** 21 + tokenId;
}

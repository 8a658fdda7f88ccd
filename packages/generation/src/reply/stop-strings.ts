/**
 * All stop strings of a request as one automaton, so the cost per character does not depend on their number
 * and length. Built once per request; a choice keeps one state number. Characters are UTF-16 units: a
 * well-formed text matches none within another, and a stop string with half a character never matches,
 * because no reply has one.
 *
 * @see Aho & Corasick, "Efficient string matching", CACM 18 (1975)
 */
export class StopStrings {
  readonly #stops: readonly string[];
  /** Transitions of the trie, by `node * 65536 + unit`. */
  readonly #next = new Map<number, number>();
  /** `[node]`: the node of its longest proper suffix. */
  readonly #fallback: number[] = [0];
  /** `[node]`: length of the longest tail that is a proper prefix of a stop string. */
  readonly #begun: number[] = [0];
  /** `[node]`: the first stop string of the list that ends here, or -1. */
  readonly #ending: number[] = [-1];

  /** @param stops none empty; the order decides between those that end at the same place */
  constructor(stops: readonly string[]) {
    this.#stops = stops.filter((stop) => stop.isWellFormed());
    const depths = [0];
    const edges: { from: number; unit: number; to: number }[] = [];
    for (const [index, stop] of this.#stops.entries()) {
      let node = 0;
      for (let i = 0; i < stop.length; i++) {
        const unit = stop.charCodeAt(i);
        let child = this.#next.get(node * UNITS + unit);
        if (child === undefined) {
          child = depths.length;
          depths.push(i + 1);
          this.#next.set(node * UNITS + unit, child);
          edges.push({ from: node, unit, to: child });
          this.#ending.push(-1);
        }
        node = child;
      }
      if (this.#ending[node] === -1) this.#ending[node] = index;
    }
    const parents = new Set(edges.map(({ from }) => from));
    // Breadth first: the suffix of a node is shallower and already known.
    for (const { from, unit, to } of edges.sort((a, b) => depths[a.to]! - depths[b.to]!)) {
      const suffix = from === 0 ? 0 : this.step(this.#fallback[from]!, unit);
      this.#fallback[to] = suffix;
      this.#begun[to] = parents.has(to) ? depths[to]! : this.#begun[suffix]!;
      const [own, inherited] = [this.#ending[to]!, this.#ending[suffix]!];
      if (own === -1 || (inherited !== -1 && inherited < own)) this.#ending[to] = inherited;
    }
  }

  /** True if no stop string can match. */
  get isEmpty(): boolean {
    return this.#stops.length === 0;
  }

  /** State after one more unit; 0 is the initial state. */
  step(state: number, unit: number): number {
    for (let node = state; ; node = this.#fallback[node]!) {
      const next = this.#next.get(node * UNITS + unit);
      if (next !== undefined) return next;
      if (node === 0) return 0;
    }
  }

  /** The stop string that ends here; the first of the list if several do. */
  endingAt(state: number): string | null {
    return this.#stops[this.#ending[state]!] ?? null;
  }

  /** Length of the tail that may start a stop string. */
  begunAt(state: number): number {
    return this.#begun[state]!;
  }
}

const UNITS = 65_536;

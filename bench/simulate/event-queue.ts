interface Planned {
  readonly at: number;
  /** Order of planning, which decides between two at the same time. */
  readonly order: number;
  readonly run: () => void;
}

/** Planned events, and the time of a simulation, in seconds. */
export class EventQueue {
  /** A binary heap, the next event on top. */
  readonly #planned: Planned[] = [];
  #now = 0;
  #numPlanned = 0;

  get now(): number {
    return this.#now;
  }

  /** @param at not before now */
  plan(at: number, run: () => void): void {
    const heap = this.#planned;
    let place = heap.push({ at: Math.max(at, this.#now), order: this.#numPlanned++, run }) - 1;
    while (place > 0) {
      const above = (place - 1) >>> 1;
      if (!isBefore(heap[place]!, heap[above]!)) break;
      [heap[place], heap[above]] = [heap[above]!, heap[place]!];
      place = above;
    }
  }

  /** Advances time until nothing is planned any more, or `isOver` returns true. */
  run(isOver: () => boolean = () => false): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      this.#now = next.at;
      next.run();
      if (isOver()) return;
    }
  }

  #next(): Planned | undefined {
    const heap = this.#planned;
    const top = heap[0];
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return top;
    heap[0] = last;
    for (let place = 0; ;) {
      const left = 2 * place + 1;
      if (left >= heap.length) return top;
      const least = left + 1 < heap.length && isBefore(heap[left + 1]!, heap[left]!) ? left + 1 : left;
      if (!isBefore(heap[least]!, heap[place]!)) return top;
      [heap[place], heap[least]] = [heap[least]!, heap[place]!];
      place = least;
    }
  }
}

function isBefore(one: Planned, other: Planned): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order);
}

import type { HeapItem } from './heap.ts';
import { insertInOrder } from './in-order.ts';
import type { Sequence, SequenceOwner } from './sequence.ts';

/**
 * Waiting part of one request: existing sequences (preempted ones, new beams), and choices that have not
 * started. Choices are made only when admitted, so that a request of thousands costs little until then.
 */
export class Backlog implements HeapItem {
  heapPlace = -1;
  readonly owner: SequenceOwner;
  /** Sorted by index. */
  readonly #made: Sequence[] = [];
  readonly #numChoices: number;
  readonly #make: (index: number) => Sequence;
  #numBegun = 0;

  /** @param make called once per index below `numChoices`, in order */
  constructor(owner: SequenceOwner, numChoices: number, make: (index: number) => Sequence) {
    this.owner = owner;
    this.#numChoices = numChoices;
    this.#make = make;
  }

  get size(): number {
    return this.#made.length + this.#numChoices - this.#numBegun;
  }
  get made(): readonly Sequence[] {
    return this.#made;
  }
  /** A beam preempted while it waits for the others of its search is not ready. */
  get isReady(): boolean {
    return this.#numBegun < this.#numChoices || this.#made.some(({ isParked }) => !isParked);
  }

  /** Round of {@link next}, see {@link Sequence.round}, without making it. */
  get round(): number {
    const made = this.#made.find(({ isParked }) => !isParked);
    return made?.round ?? Math.floor(this.#numBegun / this.owner.choicesPerRound);
  }

  /** Sequence to admit first; it stays here until taken. @throws if none is ready */
  get next(): Sequence {
    const made = this.#made.find(({ isParked }) => !isParked);
    if (made !== undefined) return made;
    const sequence = this.#make(this.#numBegun++);
    this.#made.push(sequence);
    return sequence;
  }

  add(sequence: Sequence): void {
    insertInOrder(this.#made, sequence);
  }

  take(sequence: Sequence): void {
    const index = this.#made.indexOf(sequence);
    if (index >= 0) this.#made.splice(index, 1);
  }
}

export function compareBacklogs(a: Backlog, b: Backlog): number {
  return a.owner.priority - b.owner.priority || a.round - b.round || a.owner.arrival - b.owner.arrival;
}

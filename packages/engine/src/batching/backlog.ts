import type { HeapItem } from './heap.ts';
import { insertInOrder } from './in-order.ts';
import type { Sequence, SequenceOwner } from './sequence.ts';

/**
 * The waiting part of one request: sequences that were made (preempted ones, new beams), and choices that are not begun, which are made
 * one at a time when their turn comes. A request of thousands of choices costs no more than one of a few until then.
 */
export class Backlog implements HeapItem {
  heapPlace = -1;
  readonly owner: SequenceOwner;
  /** In order of their indices. */
  readonly #made: Sequence[] = [];
  readonly #numChoices: number;
  readonly #make: (index: number) => Sequence;
  #numBegun = 0;

  /** @param make the choice of an index below `numChoices`; asked once each, in order */
  constructor(owner: SequenceOwner, numChoices: number, make: (index: number) => Sequence) {
    this.owner = owner;
    this.#numChoices = numChoices;
    this.#make = make;
  }

  /** Sequences that wait, made or not. */
  get size(): number {
    return this.#made.length + this.#numChoices - this.#numBegun;
  }
  get made(): readonly Sequence[] {
    return this.#made;
  }
  /** Whether one of them could run: a beam that was preempted while it waited for the others of its search cannot. */
  get isReady(): boolean {
    return this.#numBegun < this.#numChoices || this.#made.some(({ isParked }) => !isParked);
  }

  /** The round of {@link next}, see {@link Sequence.round}; known without making it. */
  get round(): number {
    const made = this.#made.find(({ isParked }) => !isParked);
    return made?.round ?? Math.floor(this.#numBegun / this.owner.choicesPerRound);
  }

  /** The one that is admitted first; it stays here until it is taken. @throws when none is ready */
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

/** Lower priority numbers first, then earlier rounds, then earlier arrivals. */
export function compareBacklogs(a: Backlog, b: Backlog): number {
  return a.owner.priority - b.owner.priority || a.round - b.round || a.owner.arrival - b.owner.arrival;
}

import type { TokenLogprob } from '@trainyard/backend';

import { BackendFailure } from '../faults/backend-failure.ts';

/**
 * Maximum token entries (a token, or one of its alternatives) of all whole answers together: about 500 MB
 * with their texts.
 */
const MAX_ENTRIES = 2_000_000;

/** Limits the output held by whole answers, from collection until their clients have received them. */
export class AnswerMemory {
  readonly #maxEntries: number;
  readonly #collecting = new Set<AnswerHold>();
  /** Entries of all answers, and of answers being sent. */
  #numEntries = 0;
  #numSent = 0;
  #freed = Promise.withResolvers<void>();

  constructor(maxEntries = MAX_ENTRIES) {
    this.#maxEntries = maxEntries;
  }

  hold(): AnswerHold {
    const hold = new AnswerHold(this);
    this.#collecting.add(hold);
    return hold;
  }

  /**
   * Adds to an answer. Above the limit only the oldest continues and the others wait, so that they complete
   * one after the other.
   * @returns a promise to await before collecting more; null: none
   * @throws {BackendFailure} `engine.overloaded` while unread answers fill the memory
   */
  add(hold: AnswerHold, numEntries: number): Promise<void> | null {
    if (hold.isReleased) return null;
    if (this.#numSent >= this.#maxEntries)
      throw new BackendFailure(
        'engine.overloaded',
        `Responses that clients have not read yet hold ${this.#numSent} tokens and log-probabilities (limit ${this.#maxEntries}). Retry later, or stream this response.`,
        null,
      );
    hold.numEntries += numEntries;
    this.#numEntries += numEntries;
    return this.#mayGrow(hold) ? null : this.#turn(hold);
  }

  /** Drops the entries of an answer that another engine computes again. */
  restart(hold: AnswerHold): void {
    if (hold.isReleased) return;
    this.#numEntries -= hold.numEntries;
    hold.numEntries = 0;
    this.#wake();
  }

  complete(hold: AnswerHold): void {
    if (!this.#collecting.delete(hold)) return;
    this.#numSent += hold.numEntries;
    this.#wake();
  }

  /** Frees the answer after it was sent or its client left. */
  release(hold: AnswerHold): void {
    if (hold.isReleased) return;
    hold.isReleased = true;
    this.#numEntries -= hold.numEntries;
    if (!this.#collecting.delete(hold)) this.#numSent -= hold.numEntries;
    this.#wake();
  }

  #mayGrow(hold: AnswerHold): boolean {
    return this.#numEntries <= this.#maxEntries || this.#collecting.values().next().value === hold;
  }

  async #turn(hold: AnswerHold): Promise<void> {
    while (this.#collecting.has(hold) && !this.#mayGrow(hold)) await this.#freed.promise;
  }

  #wake(): void {
    this.#freed.resolve();
    this.#freed = Promise.withResolvers<void>();
  }
}

interface CountedOutput {
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly TokenLogprob[] | null;
}

export class AnswerHold {
  numEntries = 0;
  isReleased = false;
  readonly #memory: AnswerMemory;

  constructor(memory: AnswerMemory) {
    this.#memory = memory;
  }

  take({ tokenIds, logprobs }: CountedOutput): Promise<void> | null {
    let numEntries = tokenIds.length;
    for (const { top } of logprobs ?? []) numEntries += top.length;
    return this.#memory.add(this, numEntries);
  }
  restart(): void {
    this.#memory.restart(this);
  }
  complete(): void {
    this.#memory.complete(this);
  }
  release(): void {
    this.#memory.release(this);
  }
}

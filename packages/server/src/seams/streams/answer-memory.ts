import type { TokenLogprob } from '@trainyard/backend';

import { BackendFailure } from '../faults/backend-failure.ts';

/** Token entries (a token, or an alternative of one) that whole answers may hold together: about 500 MB with their texts. */
const MAX_ENTRIES = 2_000_000;

/** How much output whole answers hold: while they are collected, and until their clients have taken them. */
export class AnswerMemory {
  readonly #maxEntries: number;
  /** Those that are being collected, the oldest first. */
  readonly #collecting = new Set<AnswerHold>();
  /** Entries of all answers, and of those that wait for their clients. */
  #numEntries = 0;
  #numSent = 0;
  #freed = Promise.withResolvers<void>();

  constructor(maxEntries = MAX_ENTRIES) {
    this.#maxEntries = maxEntries;
  }

  /** Starts an answer. */
  hold(): AnswerHold {
    const hold = new AnswerHold(this);
    this.#collecting.add(hold);
    return hold;
  }

  /**
   * Adds to an answer. Above the limit the oldest continues alone and the others wait, so that one after the other is completed.
   *
   * @returns what to wait for before more is collected; null: nothing
   * @throws {BackendFailure} `engine.overloaded` while answers that were not read take all the room
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

  /** Another engine computes the answer again: what the lost one gave is gone. */
  restart(hold: AnswerHold): void {
    if (hold.isReleased) return;
    this.#numEntries -= hold.numEntries;
    hold.numEntries = 0;
    this.#wake();
  }

  /** The whole answer is on its way to its client. */
  complete(hold: AnswerHold): void {
    if (!this.#collecting.delete(hold)) return;
    this.#numSent += hold.numEntries;
    this.#wake();
  }

  /** The answer is out, or its client has left. */
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

/** The counted parts of an output. */
interface CountedOutput {
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly TokenLogprob[] | null;
}

/** Output that one answer holds. */
export class AnswerHold {
  numEntries = 0;
  isReleased = false;
  readonly #memory: AnswerMemory;

  constructor(memory: AnswerMemory) {
    this.#memory = memory;
  }

  /** @see AnswerMemory.add */
  take({ tokenIds, logprobs }: CountedOutput): Promise<void> | null {
    let numEntries = tokenIds.length;
    for (const { top } of logprobs ?? []) numEntries += top.length;
    return this.#memory.add(this, numEntries);
  }
  /** @see AnswerMemory.restart */
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

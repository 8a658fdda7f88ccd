import type { ResponseEvent } from '@trainyard/protocol';
import { type AnswerEvents, StoreError } from '@trainyard/store';

import { toOrderedJson } from '../../seams/json/ordered-json.ts';

/** Events that come within this time are written together. */
const GATHERED_MS = 100;
/** A database that crashes may lose the writes of its last moment, which is shorter than this. */
const IN_DOUBT_MS = 10_000;

/** Events of an answer on their way to the store, in batches. A batch that cannot be written waits for the next one. */
export class EventBatches {
  readonly #write: (events: AnswerEvents) => Promise<void>;
  #pending: string[] = [];
  #last: ResponseEvent | null = null;
  #numWritten: number;
  #writing: Promise<void> | null = null;
  #written: { readonly batch: AnswerEvents; readonly at: number }[] = [];
  #isInDoubt = false;

  /** @param numWritten events that were written before */
  constructor(write: (events: AnswerEvents) => Promise<void>, numWritten: number) {
    this.#write = write;
    this.#numWritten = numWritten;
  }

  /** Events before the last one. */
  get numEvents(): number {
    return this.#numWritten + this.#pending.length;
  }

  /** The event that says how the answer ended, in place of an earlier one. It is only for {@link take}: it is written with the state that it tells. */
  end(last: ResponseEvent): void {
    this.#last = last;
  }

  add(event: ResponseEvent): void {
    this.#pending.push(toOrderedJson(event));
    this.#writing ??= this.#flush();
  }

  /** Resolves when no write is under way; events may be pending. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  /** The events that were not written; null for none. */
  take(): AnswerEvents | null {
    const events = [...this.#pending, ...(this.#last === null ? [] : [toOrderedJson(this.#last)])];
    return events.length === 0 ? null : { firstNumber: this.#numWritten, events };
  }

  /** Reports a failed call of the store. If the database was away, what was written last may be lost, and is written again by {@link restore}. */
  doubt(error: unknown): void {
    if (error instanceof StoreError && error.code === 'store.unavailable') this.#isInDoubt = true;
  }

  /** Writes again what is in doubt. The same batch in place of itself changes nothing. */
  async restore(): Promise<void> {
    if (!this.#isInDoubt) return;
    this.#isInDoubt = false;
    try {
      for (const { batch } of this.#written) await this.#write(batch);
    } catch (error) {
      this.#isInDoubt = true;
      throw error;
    }
  }

  async #flush(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, GATHERED_MS));
    const events = [...this.#pending];
    try {
      await this.restore();
      const batch = { firstNumber: this.#numWritten, events };
      await this.#write(batch);
      this.#numWritten += events.length;
      this.#pending = this.#pending.slice(events.length);
      const now = performance.now();
      this.#written = [...this.#written.filter(({ at }) => now - at < IN_DOUBT_MS), { batch, at: now }];
    } catch (error) {
      // They stay pending.
      this.doubt(error);
    }
    this.#writing = null;
  }
}

import type { ResponseEvent } from '@trainyard/protocol';
import { type AnswerEvents, StoreError } from '@trainyard/store';

import { toOrderedJson } from '../../seams/json/ordered-json.ts';

/** Events within this time are written together. */
const GATHERED_MS = 100;
/** Time until a failed write is repeated. */
const RETRY_MS = 1_000;
/** A crashing database may lose its latest writes, from less than this time. */
const IN_DOUBT_MS = 10_000;

/** Batches an answer's events for the store. A batch that cannot be written is repeated until the last event. */
export class EventBatches {
  readonly #write: (events: AnswerEvents) => Promise<void>;
  #pending: string[] = [];
  #last: ResponseEvent | null = null;
  #numWritten: number;
  #writing: Promise<void> | null = null;
  #written: { readonly batch: AnswerEvents; readonly at: number }[] = [];
  #isInDoubt = false;
  #retry: NodeJS.Timeout | null = null;
  #isStopped = false;

  /** @param numWritten events written before */
  constructor(write: (events: AnswerEvents) => Promise<void>, numWritten: number) {
    this.#write = write;
    this.#numWritten = numWritten;
  }

  /** Number of events before the last one. */
  get numEvents(): number {
    return this.#numWritten + this.#pending.length;
  }

  /**
   * Sets the final event, replacing an earlier one. Only {@link take} returns it, because it is written with
   * the state it reports.
   */
  end(last: ResponseEvent): void {
    this.#last = last;
    this.stop();
  }

  /** Ends the writes: pending events are only for {@link take}. A write in progress continues. */
  stop(): void {
    this.#isStopped = true;
    if (this.#retry !== null) clearTimeout(this.#retry);
  }

  add(event: ResponseEvent): void {
    this.#pending.push(toOrderedJson(event));
    this.#flushNext();
  }

  /** Resolves when no write is in progress; events of a failed one may be pending. */
  async settled(): Promise<void> {
    while (this.#writing !== null) await this.#writing;
  }

  /** Unwritten events; null for none. */
  take(): AnswerEvents | null {
    const events = [...this.#pending, ...(this.#last === null ? [] : [toOrderedJson(this.#last)])];
    return events.length === 0 ? null : { firstNumber: this.#numWritten, events };
  }

  /**
   * Reports a failed call of the store. If the database was away, the latest writes may be lost, and {@link
   * restore} repeats them.
   */
  doubt(error: unknown): void {
    if (error instanceof StoreError && error.code === 'store.unavailable') this.doubtWrites();
  }

  /** Reports that the database may have been away. */
  doubtWrites(): void {
    this.#isInDoubt = true;
  }

  /** Repeats the writes in doubt. Writing a batch twice changes nothing. */
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

  #flushNext(): void {
    if (this.#writing !== null || this.#isStopped || this.#pending.length === 0) return;
    this.#writing = this.#flush().then((isWritten) => {
      this.#writing = null;
      if (isWritten) this.#flushNext();
      else this.#retryLater();
    });
  }

  #retryLater(): void {
    if (this.#isStopped) return;
    if (this.#retry !== null) clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#flushNext(), RETRY_MS).unref();
  }

  async #flush(): Promise<boolean> {
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
      return true;
    } catch (error) {
      // The events stay pending.
      this.doubt(error);
      return false;
    }
  }
}

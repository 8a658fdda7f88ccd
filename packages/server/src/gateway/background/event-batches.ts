import type { ResponseEvent } from '@trainyard/protocol';
import type { AnswerEvents } from '@trainyard/store';

import { toOrderedJson } from '../../seams/json/ordered-json.ts';

/** Events that come within this time are written together. */
const GATHERED_MS = 100;

/** Events of an answer on their way to the store, in batches. A batch that cannot be written waits for the next one. */
export class EventBatches {
  readonly #write: (events: AnswerEvents) => Promise<void>;
  #pending: string[] = [];
  #last: ResponseEvent | null = null;
  #numWritten: number;
  #writing: Promise<void> | null = null;

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

  async #flush(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, GATHERED_MS));
    const events = [...this.#pending];
    try {
      await this.#write({ firstNumber: this.#numWritten, events });
      this.#numWritten += events.length;
      this.#pending = this.#pending.slice(events.length);
    } catch {
      // They stay pending.
    }
    this.#writing = null;
  }
}

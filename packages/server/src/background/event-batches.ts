import type { ResponseEvent } from '@trainyard/protocol';
import type { AnswerEvents } from '@trainyard/store';

import { toOrderedJson } from '../json/ordered-json.ts';

/** Events that come within this time are written together. */
const GATHERED_MS = 100;

/** Events of an answer on their way to the store, in batches. A batch that cannot be written waits for the next one. */
export class EventBatches {
  readonly #write: (events: AnswerEvents) => Promise<void>;
  #pending: string[] = [];
  #numWritten = 0;
  #writing: Promise<void> | null = null;

  constructor(write: (events: AnswerEvents) => Promise<void>) {
    this.#write = write;
  }

  get numEvents(): number {
    return this.#numWritten + this.#pending.length;
  }

  add(event: ResponseEvent): void {
    this.#pending.push(toOrderedJson(event));
    // The first is written at once: it shows that events are kept.
    this.#writing ??= this.#flush(this.numEvents === 1 ? 0 : GATHERED_MS);
  }

  /** Resolves when no write is under way; events may be pending. */
  async settled(): Promise<void> {
    await this.#writing;
  }

  /** The events that were not written; null for none. */
  take(): AnswerEvents | null {
    if (this.#pending.length === 0) return null;
    return { firstNumber: this.#numWritten, events: this.#pending };
  }

  async #flush(waitMs: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, waitMs));
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

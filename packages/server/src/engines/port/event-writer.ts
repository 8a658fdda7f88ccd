import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

import type { EngineEvent } from '@trainyard/generation';

import { eventLine } from '../wire/wire-events.ts';

/** Text that goes out without waiting for what else comes in the same turn. */
const FULL_CHARACTERS = 64 * 1024;

/**
 * Events on their way to one reader. What comes in one turn of the event loop, which is what a step gave its request, goes out in one write; while the reader
 * is behind, nothing more is taken.
 */
export class EventWriter {
  readonly #response: ServerResponse;
  #text = '';
  #isPlanned = false;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  /** Settles when more may come. @throws when the reader has left */
  async push(event: EngineEvent): Promise<void> {
    this.#text += eventLine(event);
    if (this.#text.length >= FULL_CHARACTERS) this.#flush();
    else this.#planFlush();
    if (this.#response.writableNeedDrain) await this.#drained();
  }

  end(): void {
    const text = this.#text;
    this.#text = '';
    this.#response.end(text);
  }

  #planFlush(): void {
    if (this.#isPlanned) return;
    this.#isPlanned = true;
    setImmediate(() => {
      this.#isPlanned = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#text === '' || this.#response.destroyed) return;
    this.#response.write(this.#text);
    this.#text = '';
  }

  async #drained(): Promise<void> {
    const end = new AbortController();
    const closed = () => end.abort(new Error('the reader has left'));
    this.#response.once('close', closed);
    if (this.#response.destroyed) closed();
    try {
      await once(this.#response, 'drain', { signal: end.signal });
    } finally {
      this.#response.off('close', closed);
    }
  }
}

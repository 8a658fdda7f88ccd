import { once } from 'node:events';
import type { ServerResponse } from 'node:http';

import type { EngineEvent } from '@trainyard/generation';

import type { FrameWriter } from '../wire/frames.ts';
import { eventsText, eventText } from '../../seams/contract/event-texts.ts';

/** Size at which text is sent without waiting for the rest of the turn. */
const FULL_CHARACTERS = 64 * 1024;

/**
 * Sends events to one reader. Events of one turn of the event loop, mostly those of one step, go out in one
 * write; no more are taken while it waits for the reader.
 */
export class EventWriter {
  readonly #response: ServerResponse;
  readonly #frames: FrameWriter;
  #texts: string[] = [];
  #numCharacters = 0;
  #isPlanned = false;

  constructor(response: ServerResponse, frames: FrameWriter) {
    this.#response = response;
    this.#frames = frames;
  }

  /** Settles when more may come. @throws if the reader has left */
  async push(event: EngineEvent): Promise<void> {
    const text = eventText(event);
    this.#texts.push(text);
    this.#numCharacters += text.length;
    if (this.#numCharacters >= FULL_CHARACTERS) this.#flush();
    else this.#planFlush();
    if (this.#response.writableNeedDrain) await this.#drained();
  }

  end(): void {
    this.#response.end(this.#takeFrame());
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
    if (this.#texts.length > 0 && !this.#response.destroyed) this.#response.write(this.#takeFrame());
  }

  #takeFrame(): string {
    if (this.#texts.length === 0) return '';
    const text = eventsText(this.#texts);
    this.#texts = [];
    this.#numCharacters = 0;
    return this.#frames.frame(text);
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

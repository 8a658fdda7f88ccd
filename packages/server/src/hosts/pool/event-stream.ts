import type { EngineEvent } from '@trainyard/generation';

/**
 * Maximum token entries (a token, or one of its alternatives) that all streams of a base model hold unread:
 * about 200 MB. Each stream has an equal part of them, between two bounds, and pauses its sequences above it.
 */
const MAX_UNREAD_ENTRIES = 1_000_000;
const MIN_STREAM_ENTRIES = 256;
const MAX_STREAM_ENTRIES = 4_096;
/** A paused stream continues below this fraction of its limit. */
const RESUME_PART = 1 / 8;

export class UnreadOutput {
  numStreams = 0;

  /** Entries above which a stream pauses. */
  get limit(): number {
    const part = Math.floor(MAX_UNREAD_ENTRIES / Math.max(1, this.numStreams));
    return Math.max(MIN_STREAM_ENTRIES, Math.min(MAX_STREAM_ENTRIES, part));
  }
}

/** Entries of an event, proportional to its memory. */
function entriesOf(event: EngineEvent): number {
  if (event.kind !== 'delta' && event.kind !== 'finished') return 1;
  let entries = 1 + event.tokenIds.length;
  for (const { top } of event.logprobs ?? []) entries += top.length;
  return entries;
}

/**
 * Events of one request, which starts when the first is requested. Hand-written, because a generator takes
 * three promises for every token. One reader, which requests one event at a time.
 */
export class HostGeneration implements AsyncIterableIterator<EngineEvent, UnreadTokens> {
  readonly #begin: () => Promise<EventStream | EngineEvent>;
  readonly #onEnd: () => void;
  #state: 'new' | 'begun' | 'over' = 'new';
  #stream: EventStream | null = null;

  constructor({ begin, onEnd }: { begin: () => Promise<EventStream | EngineEvent>; onEnd: () => void }) {
    this.#begin = begin;
    this.#onEnd = onEnd;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<EngineEvent, UnreadTokens>> {
    if (this.#state === 'new') return this.#first();
    if (this.#stream === null || this.#stream.isTaken) {
      this.#end();
      return Promise.resolve(OVER);
    }
    return this.#stream.next();
  }

  /** @returns the number of received but unread tokens */
  return(): Promise<IteratorResult<EngineEvent, UnreadTokens>> {
    return Promise.resolve({ done: true, value: this.#end() });
  }

  async #first(): Promise<IteratorResult<EngineEvent, UnreadTokens>> {
    this.#state = 'begun';
    let opened: EventStream | EngineEvent;
    try {
      opened = await this.#begin();
    } catch (error) {
      this.#end();
      throw error;
    }
    if (!(opened instanceof EventStream)) return { done: false, value: opened };
    // The reader has left in the meantime.
    if (this.#state !== 'begun') {
      opened.leave();
      opened.close();
      return OVER;
    }
    this.#stream = opened;
    return await opened.next();
  }

  #end(): number {
    const wasBegun = this.#state === 'begun';
    this.#state = 'over';
    if (!wasBegun) return 0;
    const stream = this.#stream;
    this.#stream = null;
    stream?.leave();
    this.#onEnd();
    return stream?.close() ?? 0;
  }
}

/** Sampled tokens that the reader did not take. */
export type UnreadTokens = number | void;

const OVER = { done: true, value: undefined } as const;

/** Buffer of events between the host's messages and one reader. */
export class EventStream {
  /** True once the last event has come. */
  isEnded = false;
  isPaused = false;
  /** Aborts the request in the host; does nothing after its end there. */
  readonly leave: () => void;
  #events: EngineEvent[] = [];
  #firstIndex = 0;
  #numEntries = 0;
  #waiter: ((result: IteratorYieldResult<EngineEvent>) => void) | null = null;
  readonly #unread: UnreadOutput;
  readonly #setPaused: (isPaused: boolean) => void;

  constructor(options: { unread: UnreadOutput; setPaused: (isPaused: boolean) => void; leave: () => void }) {
    const { unread, setPaused, leave } = options;
    this.#unread = unread;
    this.#setPaused = setPaused;
    this.leave = leave;
    unread.numStreams += 1;
  }

  /** True once the reader has taken the last event. */
  get isTaken(): boolean {
    return this.isEnded && this.#length === 0;
  }

  push(event: EngineEvent): void {
    if (this.isEnded) return;
    this.isEnded = event.kind === 'completed' || event.kind === 'failed';
    if (this.#waiter !== null) {
      const resolve = this.#waiter;
      this.#waiter = null;
      resolve({ done: false, value: event });
      return;
    }
    this.#events.push(event);
    this.#numEntries += entriesOf(event);
    if (!this.isPaused && !this.isEnded && this.#numEntries > this.#unread.limit) this.#pause(true);
  }

  next(): Promise<IteratorYieldResult<EngineEvent>> {
    const event = this.#events[this.#firstIndex];
    if (event === undefined) return new Promise((resolve) => (this.#waiter = resolve));
    this.#firstIndex += 1;
    this.#numEntries -= entriesOf(event);
    if (this.#firstIndex === this.#events.length) {
      this.#events = [];
      this.#firstIndex = 0;
    }
    if (this.isPaused && this.#numEntries < this.#unread.limit * RESUME_PART) this.#pause(false);
    return Promise.resolve({ done: false, value: event });
  }

  /** Drops unread events. @returns their tokens, which count as sampled */
  close(): number {
    this.#unread.numStreams -= 1;
    let numTokens = 0;
    for (const event of this.#events.slice(this.#firstIndex))
      if (event.kind === 'delta' || event.kind === 'finished') numTokens += event.tokenIds.length;
    this.#events = [];
    this.#firstIndex = 0;
    return numTokens;
  }

  get #length(): number {
    return this.#events.length - this.#firstIndex;
  }

  #pause(isPaused: boolean): void {
    this.isPaused = isPaused;
    this.#setPaused(isPaused);
  }
}

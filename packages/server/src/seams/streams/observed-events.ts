/**
 * Calls `see` with each item before its reader gets it. Takes one promise per item instead of a generator's
 * four: every token of every stream passes here. One reader, which requests one item at a time.
 */
export class ObservedEvents<Item> implements AsyncIterableIterator<Item, unknown> {
  readonly #events: AsyncIterable<Item>;
  readonly #see: (item: Item) => void;
  readonly #onEnd: () => void;
  #source: AsyncIterator<Item> | null = null;
  #isOver = false;

  /** @param observer.onEnd called once: when the source has ended or failed, or its reader has left */
  constructor(events: AsyncIterable<Item>, { see, onEnd }: { see: (item: Item) => void; onEnd: () => void }) {
    this.#events = events;
    this.#see = see;
    this.#onEnd = onEnd;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Item, unknown>> {
    if (this.#isOver) return Promise.resolve({ done: true, value: undefined });
    this.#source ??= this.#events[Symbol.asyncIterator]();
    return this.#source.next().then(this.#took, this.#failed);
  }

  /** @returns the return value of the source's `return` */
  async return(): Promise<IteratorReturnResult<unknown>> {
    const source = this.#source;
    this.#end();
    const left = await source?.return?.();
    return { done: true, value: left?.value };
  }

  readonly #took = (result: IteratorResult<Item, unknown>): IteratorResult<Item, unknown> => {
    if (result.done !== true) {
      this.#see(result.value);
      return result;
    }
    this.#end();
    return { done: true, value: undefined };
  };

  readonly #failed = (error: unknown): never => {
    this.#end();
    throw error;
  };

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onEnd();
  }
}

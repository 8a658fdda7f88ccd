/**
 * The same items, each of which is seen before its reader gets it. As a generator around the source, but with one promise an item in place of four: every token
 * of every stream passes here. One reader, who asks for one item at a time.
 */
export class SeenEvents<Item> implements AsyncIterableIterator<Item, unknown> {
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

  /** @returns what the source returns when it is left */
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

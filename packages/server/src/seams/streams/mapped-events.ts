import type { CompletedEvent, OpenedGeneration, OutputEvent } from './chat-events.ts';

/**
 * Converted events of a generation: opening items before its first output, then the result of `convert` for each
 * event up to and including `completed`. Hand-written, because every token of every stream passes here: a
 * generator takes three promises for each. One reader, which requests one item at a time.
 */
export class MappedEvents<Item> implements AsyncIterableIterator<Item, void> {
  readonly #generation: OpenedGeneration;
  readonly #opening: readonly Item[];
  readonly #convert: (event: OutputEvent | CompletedEvent) => Item | null;
  #numOpened = 0;
  #isOver = false;

  /** @param convert returns null to skip an event */
  constructor(
    generation: OpenedGeneration,
    opening: readonly Item[],
    convert: (event: OutputEvent | CompletedEvent) => Item | null,
  ) {
    this.#generation = generation;
    this.#opening = opening;
    this.#convert = convert;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Item, void>> {
    if (this.#isOver) return Promise.resolve({ done: true, value: undefined });
    const opening = this.#opening[this.#numOpened];
    if (opening === undefined) return this.#read();
    this.#numOpened += 1;
    return Promise.resolve({ done: false, value: opening });
  }

  /** Ends the generation, even if nothing was read. */
  async return(): Promise<IteratorReturnResult<void>> {
    const wasOver = this.#isOver;
    this.#isOver = true;
    if (!wasOver) await this.#generation.end();
    return { done: true, value: undefined };
  }

  #read(): Promise<IteratorResult<Item, void>> {
    return this.#generation.events.next().then(this.#took, this.#failed);
  }

  readonly #took = (
    result: IteratorResult<OutputEvent | CompletedEvent>,
  ): IteratorResult<Item, void> | Promise<IteratorResult<Item, void>> => {
    if (result.done === true) return this.return();
    let item: Item | null;
    try {
      item = this.#convert(result.value);
    } catch (error) {
      return this.#failed(error);
    }
    return item === null ? this.#read() : { done: false, value: item };
  };

  readonly #failed = async (error: unknown): Promise<never> => {
    await this.return();
    throw error;
  };
}

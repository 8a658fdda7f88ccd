export interface BatchToken {
  readonly token: number;
  readonly position: number;
  readonly sequence: number;
  readonly wantsLogits: boolean;
  /** Another sequence will start with the tokens up to this one. Only models with a recurrent state need it. Default false. */
  readonly keepsState?: boolean;
}

/**
 * Tokens that are computed together, in columns whose first `length` elements count. A sequence grows without
 * gaps, its tokens in order.
 */
export class DecoderBatch<Adapter extends object = object> {
  readonly capacity: number;
  readonly tokens: Int32Array; // [capacity]
  readonly positions: Int32Array; // [capacity]
  readonly sequences: Int32Array; // [capacity]
  readonly wantsLogits: Uint8Array; // [capacity]
  readonly keepsState: Uint8Array; // [capacity]
  /** Indices into {@link adapters}. */
  readonly adapterIndices: Int32Array; // [capacity]
  /** Adapters of the batch, each once, in order of their first token; null = the base model. */
  readonly adapters: (Adapter | null)[] = [];
  length = 0;
  numLogits = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.tokens = new Int32Array(capacity);
    this.positions = new Int32Array(capacity);
    this.sequences = new Int32Array(capacity);
    this.wantsLogits = new Uint8Array(capacity);
    this.keepsState = new Uint8Array(capacity);
    this.adapterIndices = new Int32Array(capacity);
  }

  clear(): void {
    this.adapters.length = 0;
    this.length = 0;
    this.numLogits = 0;
  }

  add(
    { token, position, sequence, wantsLogits, keepsState = false }: BatchToken,
    adapter: Adapter | null = null,
  ): void {
    const i = this.length;
    if (i >= this.capacity) throw new RangeError(`a batch holds ${this.capacity} tokens`);
    this.tokens[i] = token;
    this.positions[i] = position;
    this.sequences[i] = sequence;
    this.wantsLogits[i] = wantsLogits ? 1 : 0;
    this.keepsState[i] = keepsState ? 1 : 0;
    this.adapterIndices[i] = this.#indexOf(adapter);
    this.length = i + 1;
    if (wantsLogits) this.numLogits++;
  }

  adapterOf(i: number): Adapter | null {
    return this.adapters[this.adapterIndices[i]!]!;
  }

  #indexOf(adapter: Adapter | null): number {
    const index = this.adapters.indexOf(adapter);
    return index >= 0 ? index : this.adapters.push(adapter) - 1;
  }
}

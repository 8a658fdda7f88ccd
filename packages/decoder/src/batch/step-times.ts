/** Parts of a batch's computation, one after the other on the calling thread. */
export const STEP_PARTS = ['rows', 'adapters', 'products', 'keysAndValues', 'attention', 'head'] as const;
export type StepPart = (typeof STEP_PARTS)[number];

/** Time per part since the decoder was opened, ms. Costs 20 µs per batch of thirty layers by the default clock. */
export class StepTimes {
  readonly #clock: () => number;
  readonly #ms = new Float64Array(STEP_PARTS.length);
  #since = 0;

  /** @param clock ms. Default: wall time */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** Starts the first part. */
  begin(): void {
    this.#since = this.#clock();
  }

  /** Ends a part that started with the end of the one before. */
  end(part: StepPart): void {
    const now = this.#clock();
    this.#ms[STEP_PARTS.indexOf(part)]! += now - this.#since;
    this.#since = now;
  }

  get ms(): Readonly<Record<StepPart, number>> {
    const parts = STEP_PARTS.map((part, i) => [part, this.#ms[i]!]);
    return Object.fromEntries(parts) as Record<StepPart, number>;
  }
}

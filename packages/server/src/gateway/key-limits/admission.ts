import type { KeyLimits } from '@trainyard/store';

interface Meter {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** An admitted request of a limited key, until its end. */
export class Admission {
  readonly limits: KeyLimits;
  /** True if it counts as in flight; queued work does not. */
  readonly hasPlace: boolean;
  /** Response headers with the key's limits and their remainders. */
  readonly headers: Readonly<Record<string, string>>;
  readonly #onMeasured: (admission: Admission) => void;
  #meters: readonly Meter[] = [];
  #numReported = 0;

  constructor(
    { limits, hasPlace, headers }: Pick<Admission, 'limits' | 'hasPlace' | 'headers'>,
    onMeasured: (admission: Admission) => void,
  ) {
    this.limits = limits;
    this.hasPlace = hasPlace;
    this.headers = headers;
    this.#onMeasured = onMeasured;
  }

  /** Sets the meters of its prompts, which continue to count. */
  watch(meters: readonly Meter[]): void {
    this.#meters = meters;
  }

  settle(): void {
    this.#onMeasured(this);
  }

  /** Number of tokens since the last call. */
  takeTokens(): number {
    const numTokens = this.#meters.reduce((sum, meter) => sum + meter.promptTokens + meter.completionTokens, 0);
    const numNew = numTokens - this.#numReported;
    this.#numReported = numTokens;
    return numNew;
  }
}

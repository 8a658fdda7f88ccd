import type { KeyLimits } from '@trainyard/store';

/** Tokens of a prompt, as far as they have come. */
interface Meter {
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** A request of a limited key that was let through, until nothing of it is needed any more. */
export class Admission {
  readonly limits: KeyLimits;
  /** Whether it is in flight for the limit of those; work that is queued is not. */
  readonly hasPlace: boolean;
  /** Told to its client: the key's limits, and what is left of them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly #onMeasured: (admission: Admission) => void;
  #meters: readonly Meter[] = [];
  #numTold = 0;

  constructor(
    { limits, hasPlace, headers }: Pick<Admission, 'limits' | 'hasPlace' | 'headers'>,
    onMeasured: (admission: Admission) => void,
  ) {
    this.limits = limits;
    this.hasPlace = hasPlace;
    this.headers = headers;
    this.#onMeasured = onMeasured;
  }

  /** The meters of its prompts, which go on counting. */
  watch(meters: readonly Meter[]): void {
    this.#meters = meters;
  }

  /** The meters count no further. */
  settle(): void {
    this.#onMeasured(this);
  }

  /** How many tokens have come since this was asked the last time. */
  takeTokens(): number {
    const numTokens = this.#meters.reduce((sum, meter) => sum + meter.promptTokens + meter.completionTokens, 0);
    const numNew = numTokens - this.#numTold;
    this.#numTold = numTokens;
    return numNew;
  }
}

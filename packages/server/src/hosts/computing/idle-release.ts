/** Calls `release` after a period without use. Uses may overlap and last longer than the period. */
export class IdleRelease {
  readonly #afterMs: number;
  readonly #release: () => void;
  #numUses = 0;
  #timer: NodeJS.Timeout | null = null;

  /** @param afterMs from the end of the last use; the timer does not keep the process alive */
  constructor(afterMs: number, release: () => void) {
    this.#afterMs = afterMs;
    this.#release = release;
  }

  /** Call it before each use, and `end` after it. */
  begin(): void {
    this.#numUses += 1;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  end(): void {
    this.#numUses -= 1;
    if (this.#numUses === 0) this.#timer = setTimeout(this.#release, this.#afterMs).unref();
  }
}

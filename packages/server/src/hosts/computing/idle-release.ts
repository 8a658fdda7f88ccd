/** Gives something back when nothing has used it for a while. Uses may overlap and take longer than the while. */
export class IdleRelease {
  readonly #afterMs: number;
  readonly #release: () => void;
  #numUses = 0;
  #timer: NodeJS.Timeout | null = null;

  /** @param afterMs from the end of the last use; the wait alone does not keep the process alive */
  constructor(afterMs: number, release: () => void) {
    this.#afterMs = afterMs;
    this.#release = release;
  }

  /** Before a use; `end` follows each. */
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

/** Pause after an unexpected failure (such as a full disk), so that the loop does not spin. */
const RETRY_AFTER_FAILURE_MS = 2_000;

export interface WorkLoopOptions {
  /** Name in the log, such as `training worker`. */
  readonly name: string;
  /** Poll interval without notifications: another replica may have queued work. */
  readonly pollMs: number;
  /** Runs the next piece of work. @returns false if there was none */
  readonly workOnce: () => Promise<boolean>;
  readonly log: (line: string) => void;
}

/** Runs one piece of work after the other, until it is stopped. */
export class WorkLoop {
  readonly #options: WorkLoopOptions;
  #isStopping = false;
  #wake: PromiseWithResolvers<void> = Promise.withResolvers();
  #loop: Promise<void> | null = null;

  constructor(options: WorkLoopOptions) {
    this.#options = options;
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  /** Checks for work now rather than at the next poll. */
  notify(): void {
    this.#wake.resolve();
  }

  /** Takes no more work; settles when the current piece is done, which the caller may speed up. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.notify();
    await this.#loop;
  }

  async #run(): Promise<void> {
    const { name, pollMs, workOnce, log } = this.#options;
    while (!this.#isStopping) {
      this.#wake = Promise.withResolvers();
      try {
        if (!(await workOnce())) await this.#sleep(pollMs);
      } catch (error) {
        // Unfinished work keeps its row and is retried.
        log(`${name}: ${(error as Error).message}`);
        await this.pauseAfterFailure();
      }
    }
  }

  /** Pause for work that cannot be finished yet; a stop ends it early. */
  pauseAfterFailure(): Promise<void> {
    // Earlier notifications are handled after the pause anyway, and must not shorten it.
    if (!this.#isStopping) this.#wake = Promise.withResolvers();
    return this.#sleep(RETRY_AFTER_FAILURE_MS);
  }

  async #sleep(ms: number): Promise<void> {
    const timer = setTimeout(() => this.notify(), ms);
    await this.#wake.promise;
    clearTimeout(timer);
  }
}

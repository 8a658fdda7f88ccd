/** Pause after an unexpected failure (a full disk, say), so that the loop does not spin. */
const RETRY_AFTER_FAILURE_MS = 2_000;

export interface WorkLoopOptions {
  /** For the log, such as `training worker`. */
  readonly name: string;
  /** Another replica may have queued something: looked for this often when nobody notifies. */
  readonly pollMs: number;
  /** Takes the next piece of work and sees it through. @returns false when there was none */
  readonly workOnce: () => Promise<boolean>;
  readonly log: (line: string) => void;
}

/** One piece of work after the other, until it is stopped. */
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

  /** Looks for work now rather than at the next poll. */
  notify(): void {
    this.#wake.resolve();
  }

  /** Takes no more work from now on; settles when the piece in hand is done with, which is the caller's to hurry. */
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
        // What could not be finished keeps its row and is tried again.
        log(`${name}: ${(error as Error).message}`);
        await this.pauseAfterFailure();
      }
    }
  }

  /** For work that cannot be finished yet; a stop ends it early. */
  pauseAfterFailure(): Promise<void> {
    // What was notified before is looked at after the pause in any case, and must not cut it short.
    if (!this.#isStopping) this.#wake = Promise.withResolvers();
    return this.#sleep(RETRY_AFTER_FAILURE_MS);
  }

  async #sleep(ms: number): Promise<void> {
    const timer = setTimeout(() => this.notify(), ms);
    await this.#wake.promise;
    clearTimeout(timer);
  }
}

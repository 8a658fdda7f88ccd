import { AsyncLocalStorage } from 'node:async_hooks';

const processes = new AsyncLocalStorage<SimulatedProcess>();

/**
 * One of several processes in this thread. All its external actions await `pass`. A killed one never
 * continues there and its timers do not fire, so it cleans nothing up; a stopped one continues later.
 */
export class SimulatedProcess {
  readonly name: string;
  /** error of its clock, ms */
  readonly skewMs: number;
  #isDead = false;
  #frozen: { ends: PromiseWithResolvers<void>; held: (() => void)[] } | null = null;

  constructor(name: string, skewMs: number) {
    this.name = name;
    this.skewMs = skewMs;
  }

  /** Process of the running code; undefined outside of processes. */
  static get current(): SimulatedProcess | undefined {
    return processes.getStore();
  }

  run<Result>(work: () => Result): Result {
    return processes.run(this, work);
  }

  /** Runs code outside of all processes, even if a process calls it. */
  static outside<Result>(work: () => Result): Result {
    return processes.exit(work);
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  get isFrozen(): boolean {
    return this.#frozen !== null;
  }

  kill(): void {
    this.#isDead = true;
    this.#frozen = null;
  }

  freeze(): void {
    if (!this.#isDead) this.#frozen ??= { ends: Promise.withResolvers(), held: [] };
  }

  thaw(): void {
    const frozen = this.#frozen;
    this.#frozen = null;
    if (frozen === null || this.#isDead) return;
    for (const work of frozen.held) this.whenRunning(work);
    frozen.ends.resolve();
  }

  /** Resolves while it runs, and never after it was killed. */
  async pass(): Promise<void> {
    while (this.#frozen !== null) await this.#frozen.ends.promise;
    // A new promise each, garbage-collected with its waiter.
    if (this.#isDead) await new Promise<never>(() => {});
  }

  /** Runs `work` now, when the process continues, or never. */
  whenRunning(work: () => void): void {
    if (this.#isDead) return;
    if (this.#frozen === null) work();
    else this.#frozen.held.push(work);
  }
}

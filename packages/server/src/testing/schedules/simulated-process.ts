import { AsyncLocalStorage } from 'node:async_hooks';

const processes = new AsyncLocalStorage<SimulatedProcess>();

/**
 * A process among others of this thread. All that it does to the world goes through `pass`: databases, blobs, layer runs. One that is killed gets no further there
 * and none of its timers fires, so nothing of it cleans up; one that is stopped goes on where it was.
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

  /** The process whose code this is; undefined for the code around. */
  static get current(): SimulatedProcess | undefined {
    return processes.getStore();
  }

  /** Code that is begun here is of this process. */
  run<Result>(work: () => Result): Result {
    return processes.run(this, work);
  }

  /** Code around it, also where it is called by a process. */
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

  /** Resolves while it runs, and never when it was killed. */
  async pass(): Promise<void> {
    while (this.#frozen !== null) await this.#frozen.ends.promise;
    // One each, which goes with who waits for it.
    if (this.#isDead) await new Promise<never>(() => {});
  }

  /** Now, when it goes on, or never. */
  whenRunning(work: () => void): void {
    if (this.#isDead) return;
    if (this.#frozen === null) work();
    else this.#frozen.held.push(work);
  }
}

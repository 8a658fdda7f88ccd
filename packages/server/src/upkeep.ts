import type { Store } from '@trainyard/store';

/** Often enough that what has expired takes little, seldom enough that nobody notices. */
const EVERY_MS = 10 * 60_000;

/** Removes what has expired from the store, now and then for as long as the service runs. */
export class Upkeep {
  readonly #store: Pick<Store, 'purgeExpired'>;
  readonly #log: (line: string) => void;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> = Promise.resolve();

  constructor(store: Pick<Store, 'purgeExpired'>, log: (line: string) => void) {
    this.#store = store;
    this.#log = log;
  }

  start(): void {
    this.#timer ??= setInterval(() => (this.#running = this.#running.then(() => this.#once())), EVERY_MS).unref();
  }

  /** Settles when nothing of it runs any more. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#running;
  }

  async #once(): Promise<void> {
    try {
      await this.#store.purgeExpired();
    } catch (error) {
      // It stays until the next time.
      this.#log(`what has expired stays for now: ${(error as Error).message}`);
    }
  }
}

import { StoreError } from '../../contract/errors.ts';
import { type Access, HEARTBEAT } from '../access.ts';

/** Time after a use during which further uses of the key are not written. */
const PERIOD_MS = 60_000;
/** Time for which uses of several keys are collected for one write. */
const COLLECT_MS = 1_000;

/** Last uses of keys on their way to the database. No request waits for the write or fails with it. */
export class KeyUseBuffer {
  readonly #access: Pick<Access, 'now' | 'write'>;
  /** Uses of the last period by key. */
  readonly #recent = new Map<string, number>();
  #pending = new Map<string, number>();
  #timer: NodeJS.Timeout | null = null;
  #written: Promise<void> = Promise.resolve();

  constructor(access: Pick<Access, 'now' | 'write'>) {
    this.#access = access;
  }

  add(keyId: string): void {
    const now = this.#access.now();
    const last = this.#recent.get(keyId);
    if (last !== undefined && Math.abs(now - last) < PERIOD_MS) return;
    this.#recent.set(keyId, now);
    this.#pending.set(keyId, now);
    this.#flushIn(COLLECT_MS);
  }

  /** Writes everything pending, after earlier writes. Never rejects: a failed write is repeated a period later. */
  async flush(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#written = this.#written.then(() => this.#write());
    await this.#written;
  }

  async #write(): Promise<void> {
    if (this.#pending.size === 0) return;
    const batch = this.#pending;
    this.#pending = new Map();
    const now = this.#access.now();
    for (const [keyId, at] of this.#recent) if (now - at >= PERIOD_MS) this.#recent.delete(keyId);
    try {
      await this.#access.write(async ({ keys }) => {
        for (const [keyId, at] of batch) await keys.setLastUsed(keyId, at);
      }, HEARTBEAT);
    } catch (error) {
      // A closed database stays closed.
      if (error instanceof StoreError && error.code === 'store.closed') return;
      this.#pending = new Map([...batch, ...this.#pending]);
      this.#flushIn(PERIOD_MS);
    }
  }

  #flushIn(ms: number): void {
    this.#timer ??= setTimeout(() => void this.flush(), ms).unref();
  }
}

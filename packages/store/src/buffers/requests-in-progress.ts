import { StoreError } from '../contract/errors.ts';
import type { Sql } from '../contract/sql.ts';
import type { IdempotentAnswer, IdempotentState } from '../contract/store.ts';
import { openTables } from '../tables/tables.ts';

/** How long after it could not be told that a request was given up that is tried again. */
const RETRY_MS = 1_000;

type Identity = Pick<IdempotentAnswer, 'keyId' | 'key'>;

/**
 * The requests of this process whose answers will be kept under their `Idempotency-Key`. A database can be lost with the answer to a commit, so that a
 * request is in progress there which nobody is at, for a day: what bears the name of this process is at work only while it is known here.
 */
export class RequestsInProgress {
  readonly #sql: Sql;
  readonly #clock: () => number;
  readonly #owner: string;
  readonly #live = new Set<string>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #isClosed = false;

  /** @param owner the name of this process among those that share the database */
  constructor(sql: Sql, clock: () => number, owner: string) {
    this.#sql = sql;
    this.#clock = clock;
    this.#owner = owner;
  }

  async begin(request: Identity & { requestHash: string }): Promise<IdempotentState> {
    const id = idOf(request);
    const isAtIt = this.#live.has(id);
    this.#live.add(id);
    let isStarted = isAtIt;
    try {
      const state = await this.#sql.transaction((queries) =>
        openTables(queries).idempotency.begin(request, { owner: this.#owner, isAtIt }, this.#clock()),
      );
      if (state.kind === 'started') {
        isStarted = true;
        // Whoever was at it before may have gone while this one waited.
        this.#live.add(id);
      }
      return state;
    } catch (error) {
      if (!isAtIt && isUnknown(error)) this.#setFreeLater(request);
      throw error;
    } finally {
      if (!isStarted) this.#live.delete(id);
    }
  }

  async complete(answer: IdempotentAnswer): Promise<void> {
    await this.#sql.transaction((queries) => openTables(queries).idempotency.complete(answer));
    this.#live.delete(idOf(answer));
  }

  /** The key is free again, as soon as the database takes it; for this process at once. */
  async abandon(request: Identity): Promise<void> {
    this.#live.delete(idOf(request));
    await this.#setFree(request);
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) clearTimeout(timer);
  }

  async #setFree(request: Identity): Promise<void> {
    try {
      await this.#sql.transaction(async (queries) => {
        // It may have come again meanwhile.
        if (!this.#live.has(idOf(request))) await openTables(queries).idempotency.abandon(request, this.#owner);
      });
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#setFreeLater(request);
    }
  }

  #setFreeLater(request: Identity): void {
    if (this.#isClosed) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void this.#setFree(request);
    }, RETRY_MS).unref();
    this.#timers.add(timer);
  }
}

const idOf = ({ keyId, key }: Identity): string => `${keyId} ${key}`;

/** The commit may have happened. */
function isUnknown(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.unavailable';
}

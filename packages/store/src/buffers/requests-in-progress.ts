import { StoreError } from '../contract/errors.ts';
import type { Sql } from '../contract/sql.ts';
import type { IdempotentAnswer, IdempotentState } from '../contract/store.ts';
import { openTables, type Tables } from '../tables/tables.ts';

/** Time between two renewals of what is in progress; a third of what one lasts. */
const RENEWAL_MS = 20_000;
/** How long after it could not be told that a request was given up that is tried again. */
const RETRY_MS = 1_000;

type Identity = Pick<IdempotentAnswer, 'keyId' | 'key'>;

/**
 * The requests of this process whose answers will be kept under their `Idempotency-Key`. A database can be lost with the answer to a commit, so that a
 * request is in progress there which nobody is at: what bears the name of this process is at work only while it is known here. A process that dies renews
 * nothing any more, and its requests are started by whoever gets them next; one that was only stopped finds that out when it keeps its answer.
 */
export class RequestsInProgress {
  readonly #sql: Sql;
  readonly #clock: () => number;
  readonly #owner: string;
  readonly #live = new Set<string>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #renewing: NodeJS.Timeout | null = null;
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
        this.#renewLater();
      }
      return state;
    } catch (error) {
      if (!isAtIt && isUnknown(error)) this.#setFreeLater(request);
      throw error;
    } finally {
      if (!isStarted) this.#live.delete(id);
    }
  }

  /** Without effect when that was done, or the record is gone. */
  async complete(answer: IdempotentAnswer): Promise<void> {
    await this.#sql.transaction((queries) =>
      openTables(queries).idempotency.complete(answer, this.#owner, this.#clock()),
    );
    this.#live.delete(idOf(answer));
  }

  /**
   * In the transaction that has the effect of the request, which is rolled back when another process is at it by now, or was.
   * @throws {StoreError} `store.busy`
   */
  async completeIn({ idempotency }: Tables, answer: IdempotentAnswer): Promise<void> {
    if (await idempotency.complete(answer, this.#owner, this.#clock())) return;
    throw new StoreError(
      'store.busy',
      `another process has taken up the request under the Idempotency-Key ${answer.key}`,
    );
  }

  /**
   * The key is free again, as soon as the database takes it; for this process at once.
   *
   * @returns false when it is known not to be this process's any more: another may have answered it
   */
  async abandon(request: Identity): Promise<boolean> {
    this.#live.delete(idOf(request));
    return await this.#setFree(request);
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    if (this.#renewing !== null) clearTimeout(this.#renewing);
  }

  #renewLater(): void {
    if (this.#isClosed || this.#renewing !== null) return;
    this.#renewing = setTimeout(() => void this.#renew(), RENEWAL_MS).unref();
  }

  async #renew(): Promise<void> {
    try {
      if (this.#live.size > 0)
        await this.#sql.transaction((queries) => openTables(queries).idempotency.renew(this.#owner, this.#clock()), {
          isDurable: false,
        });
    } catch (error) {
      // The next time; what ends meanwhile is not kept by the transaction that has its effect.
      if (!(error instanceof StoreError)) throw error;
    } finally {
      this.#renewing = null;
    }
    if (this.#live.size > 0) this.#renewLater();
  }

  async #setFree(request: Identity): Promise<boolean> {
    try {
      return await this.#sql.transaction(async (queries) => {
        // It may have come again meanwhile.
        if (this.#live.has(idOf(request))) return false;
        return await openTables(queries).idempotency.abandon(request, this.#owner);
      });
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#setFreeLater(request);
      return true;
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

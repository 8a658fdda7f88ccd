import { StoreError } from '../../contract/errors.ts';
import type { Idempotency, IdempotentAnswer, IdempotentState } from './idempotency.ts';
import type { Sql } from '../../contract/sql.ts';
import { openTables, type Tables } from '../tables.ts';

/** Time between two renewals of requests in progress; a third of their lifetime. */
const RENEWAL_MS = 20_000;
/** Time until a failed attempt to give up a request is repeated. */
const RETRY_MS = 1_000;

type Identity = Pick<IdempotentAnswer, 'keyId' | 'key'>;

/**
 * Requests of this process whose answers will be kept under their `Idempotency-Key`. If the response to a
 * commit is lost with the database, a request is in progress there without a worker. So a request with the
 * name of this process is active only while it is known here. A process that dies stops renewing, and the
 * next to receive its requests starts them; a process that was only suspended notices when it keeps its
 * answer.
 */
export class RequestsInProgress implements Idempotency {
  readonly #sql: Sql;
  readonly #clock: () => number;
  readonly #owner: string;
  readonly #live = new Set<string>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #renewing: NodeJS.Timeout | null = null;
  #isClosed = false;

  /** @param owner name of this process among those that share the database */
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
        // The former owner may have gone while this one waited.
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

  /** Has no effect if that was done, or the record is gone. */
  async complete(answer: IdempotentAnswer): Promise<void> {
    await this.#sql.transaction((queries) =>
      openTables(queries).idempotency.complete(answer, this.#owner, this.#clock()),
    );
    this.#live.delete(idOf(answer));
  }

  /**
   * Completes within the transaction that has the effect of the request. It is rolled back if another process
   * has taken up the request.
   * @throws {StoreError} `store.busy`
   */
  async completeIn({ idempotency }: Tables, answer: IdempotentAnswer): Promise<void> {
    if (await idempotency.complete(answer, this.#owner, this.#clock())) return;
    throw new StoreError('store.busy', `another process is handling the request with Idempotency-Key ${answer.key}`);
  }

  /**
   * Frees the key, as soon as the database accepts it; for this process at once.
   *
   * @returns false if it is known to belong to another process by now, which may have answered it
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
      // Renewed next time. A request that ends meanwhile is rejected by the transaction that has its effect.
      if (!(error instanceof StoreError)) throw error;
    } finally {
      this.#renewing = null;
    }
    if (this.#live.size > 0) this.#renewLater();
  }

  async #setFree(request: Identity): Promise<boolean> {
    try {
      return await this.#sql.transaction(async (queries) => {
        // The request may have arrived again meanwhile.
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

/** True if the commit may have happened. */
function isUnknown(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.unavailable';
}

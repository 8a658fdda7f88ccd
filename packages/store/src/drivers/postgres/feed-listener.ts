import type pg from 'pg';
import { ClosingClient } from './closing-client.ts';
import { CHANNEL } from './postgres-words.ts';
import { FORGET_SILENT_CLIENTS } from './silent-ends.ts';

/** Notifications within so long are one wake: a training step tells several things at once. */
const GATHER_MS = 50;
/** Pause before a lost connection is made anew; doubled each time it cannot be, up to the second. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 10_000;
/** A connection whose other end is gone without a word is found out by asking. */
const ASK_MS = 30_000;

/**
 * One connection that hears of what is added to the feed. A notification is a hint that may be lost, late or double: whoever is woken looks for itself,
 * and looks now and then unwoken. So a connection that is lost harms nobody; it is made anew, and all are woken once for what was missed.
 */
export class FeedListener {
  readonly #connection: pg.ClientConfig;
  readonly #wakes = new Set<() => void>();
  #client: pg.Client | null = null;
  #pauseMs = FIRST_PAUSE_MS;
  #timer: NodeJS.Timeout | null = null;
  #gathering: NodeJS.Timeout | null = null;
  #isClosed = false;

  constructor(connection: pg.ClientConfig) {
    this.#connection = connection;
  }

  /** Connects for the first who wants to know. @returns who is woken no more */
  add(wake: () => void): () => void {
    // Each its own, also where two are the same function.
    const own = () => wake();
    this.#wakes.add(own);
    if (this.#client === null && this.#timer === null && !this.#isClosed) void this.#connect();
    return () => void this.#wakes.delete(own);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const timer of [this.#timer, this.#gathering]) if (timer !== null) clearTimeout(timer);
    const client = this.#client;
    this.#client = null;
    if (client !== null) endSoon(client);
  }

  async #connect(): Promise<void> {
    this.#timer = null;
    let client: pg.Client;
    try {
      client = new ClosingClient(this.#connection);
    } catch {
      // A file that the address names, such as a certificate, is not there, or not for now.
      return this.#connectLater();
    }
    this.#client = client;
    const lost = () => this.#lost(client);
    client.on('error', lost).on('end', lost);
    try {
      await client.connect();
      await client.query(FORGET_SILENT_CLIENTS);
      await client.query(`listen ${CHANNEL}`);
      const { rows } = await client.query<{ schema: string | null }>('select current_schema() as schema');
      const schema = rows[0]?.schema ?? '';
      client.on('notification', ({ payload }) => {
        if (payload === schema) this.#gather();
      });
    } catch {
      return lost();
    }
    if (this.#client !== client) return;
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#gather();
    this.#askLater(client);
  }

  #lost(client: pg.Client): void {
    if (this.#client !== client) return;
    this.#client = null;
    endSoon(client);
    this.#connectLater();
  }

  #connectLater(): void {
    if (this.#isClosed) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#connect(), this.#pauseMs).unref();
    this.#pauseMs = Math.min(2 * this.#pauseMs, MAX_PAUSE_MS);
  }

  #askLater(client: pg.Client): void {
    this.#timer = setTimeout(() => {
      this.#timer = null;
      client.query('select 1').then(
        () => this.#client === client && this.#askLater(client),
        () => this.#lost(client),
      );
    }, ASK_MS).unref();
  }

  #gather(): void {
    this.#gathering ??= setTimeout(() => {
      this.#gathering = null;
      for (const wake of this.#wakes) wake();
    }, GATHER_MS).unref();
  }
}

/** Nobody waits for its end, which a server that is gone never confirms. */
function endSoon(client: pg.Client): void {
  client.end().catch(() => undefined);
}

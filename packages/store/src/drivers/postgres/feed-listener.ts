import type pg from 'pg';
import { ClosingClient } from './closing-client.ts';
import { CHANNEL } from './postgres-words.ts';
import { FORGET_SILENT_CLIENTS } from './silent-ends.ts';

/** Notifications within this period are one wake: a training step sends several at once. */
const GATHER_MS = 50;
/** Pause before a lost connection is made again; doubled after each failure, up to the second value. */
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 10_000;
/** Interval of a query that detects a connection whose peer is gone. */
const ASK_MS = 30_000;

/**
 * Connection that listens for additions to the feed. A notification is a hint that may be lost, late or
 * repeated: watchers read the feed themselves, and also at intervals. So a lost connection does no harm; it
 * is made again, and then all watchers are woken once.
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

  /** Adds a watcher; connects for the first one. @returns removes the watcher */
  add(wake: () => void): () => void {
    // Unique per call, even for the same function.
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
      // A file named in the address, such as a certificate, is missing, perhaps temporarily.
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

/** Ends a connection without waiting: a server that is gone never confirms. */
function endSoon(client: pg.Client): void {
  client.end().catch(() => undefined);
}

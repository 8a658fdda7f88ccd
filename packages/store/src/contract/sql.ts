/** A value of a row. Whole numbers are exact up to 2⁵³; milliseconds and positions stay below. */
export type SqlValue = string | number | null | NodeJS.NonSharedUint8Array;

export type SqlParameter = string | number | null | Uint8Array;

export type SqlRow = Record<string, SqlValue>;

export interface SqlResult<Row extends SqlRow> {
  rows: Row[];
  /** Number of rows that a statement without result rows inserted, changed or deleted. */
  numChanged: number;
}

/** Runs statements on a database, each as its own transaction, or within one open transaction. */
export interface Queries {
  /**
   * Runs one statement, a constant of this package: SQL that SQLite and PostgreSQL both understand, with `?`
   * for each parameter.
   * @throws {StoreError}
   */
  query<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]): Promise<SqlResult<Row>>;
}

export interface TransactionOptions {
  /**
   * Default true: a commit survives a power failure. False: the commit does not wait for the disk. It
   * survives the end of the process and is visible to other processes at once, but a power failure may lose
   * the last ones.
   */
  isDurable?: boolean;
  /** Uses part of the space that the driver reserves for such writes on a full disk. Default false. */
  spendsReserve?: boolean;
}

/**
 * One database, as the tables use it. A driver implements connections, the words of the schema
 * (`SchemaWords`) and the translation of errors to `StoreError`. The rest of the store is written once above
 * it.
 */
export interface Sql extends Queries {
  /**
   * Runs `body` in one write transaction: committed when its promise resolves, rolled back when it rejects.
   * No other write transaction of the database runs meanwhile, so reads of the body stay true until its end.
   * The body awaits only its own `queries`, never uses the database itself, and may run twice: its effects
   * elsewhere must allow that.
   *
   * @throws {StoreError} `store.busy` if others hold the database for too long; after `store.unavailable` the
   *   commit may have happened
   */
  transaction<Result>(body: (queries: Queries) => Promise<Result>, options?: TransactionOptions): Promise<Result>;
  /**
   * Milliseconds since the epoch on the database's clock, which all its clients share. Estimated from the
   * start of the last transaction and the time since, so it can be read at any time.
   */
  readonly now: number;
  /**
   * Number that changes with each commit of another connection: earlier reads are valid while it is the same
   * and this connection wrote nothing. Null if the database has no such number, or cannot read it now.
   */
  readonly foreignVersion: number | null;
  /** See `Store.feed.watch`. */
  watchFeed(wake: () => void): () => void;
  /** See `Store.database.problem`. */
  readonly problem: string | null;
  /** See `Store.database.numLostConnections`. */
  readonly numLostConnections: number;
  /** See `Store.database.isAway`. */
  isAway(): Promise<boolean>;
  /**
   * Returns the space of removed rows to the file system, a part at a time. Does nothing for databases that
   * do so themselves.
   */
  reclaimSpace(): Promise<void>;
  /**
   * Closes after the transaction in progress. A second call does nothing. Waiting and later calls fail with
   * `store.closed`.
   */
  close(): Promise<void>;
}

/** `Queries` in the three forms that tables need. */
export class Statements {
  readonly #queries: Queries;
  constructor(queries: Queries) {
    this.#queries = queries;
  }

  /** Returns the first row. */
  get<Row extends SqlRow>(statement: string, ...parameters: SqlParameter[]): Promise<Row | undefined> {
    return this.#queries.query<Row>(statement, parameters).then(({ rows }) => rows[0]);
  }

  all<Row extends SqlRow>(statement: string, ...parameters: SqlParameter[]): Promise<Row[]> {
    return this.#queries.query<Row>(statement, parameters).then(({ rows }) => rows);
  }

  run(statement: string, ...parameters: SqlParameter[]): Promise<number> {
    return this.#queries.query(statement, parameters).then(({ numChanged }) => numChanged);
  }
}

/** A value of a row. Whole numbers are exact to 2⁵³, which milliseconds and positions stay below. */
export type SqlValue = string | number | null | NodeJS.NonSharedUint8Array;

/** A parameter of a statement. */
export type SqlParameter = string | number | null | Uint8Array;

export type SqlRow = Record<string, SqlValue>;

export interface SqlResult<Row extends SqlRow> {
  rows: Row[];
  /** How many rows a statement without result rows inserted, changed or deleted. */
  numChanged: number;
}

/** Runs statements: a database, where each is a transaction of its own, or one open transaction. */
export interface Queries {
  /**
   * Runs one statement, which is a constant of this package: SQL that SQLite and PostgreSQL both understand, with `?` for each parameter.
   * @throws {StoreError}
   */
  query<Row extends SqlRow>(statement: string, parameters: readonly SqlParameter[]): Promise<SqlResult<Row>>;
}

export interface TransactionOptions {
  /**
   * Default true: what is committed survives a power failure. False: it survives the end of the process, other processes see it at once, and
   * a power failure may take the last of it; the commit does not wait for the disk.
   */
  isDurable?: boolean;
  /** Spends a part of the space that the driver keeps for such writes when the disk is full. Default false. */
  spendsReserve?: boolean;
}

/**
 * One database, as the tables see it. A driver makes one: it knows how to connect, what the schema is called there (`SchemaWords`), and how its
 * errors read as `StoreError`s. Everything else of the store is written once above it.
 */
export interface Sql extends Queries {
  /**
   * Runs `body` in one write transaction: committed when its promise resolves, rolled back when it rejects. No other write transaction of the
   * database runs meanwhile, so what the body has read stays true until its end. The body awaits nothing but its own `queries`, never uses
   * the database itself, and what it changes outside must be right also when it runs twice.
   *
   * @throws {StoreError} `store.busy` when others keep the database for too long; after `store.unavailable` the commit may have happened
   */
  transaction<Result>(body: (queries: Queries) => Promise<Result>, options?: TransactionOptions): Promise<Result>;
  /**
   * Milliseconds since the epoch, by the clock that all go by who share the database: of another machine, where that has it. As of the beginning of the
   * last transaction and what has passed since, so it can be read at any time.
   */
  readonly now: number;
  /**
   * Another one each time somebody else has committed, of whom this connection hears: what was read before is as it was while it stays the same and nothing was
   * written here. Null where the database does not tell, or cannot now.
   */
  readonly foreignVersion: number | null;
  /** See `Store.watchFeed`. */
  watchFeed(wake: () => void): () => void;
  /** See `Store.trouble`. */
  readonly trouble: string | null;
  /** See `Store.isAway`. */
  isAway(): Promise<boolean>;
  /** Gives the room of removed rows back to the file system, a part at a time. Databases that do so themselves do nothing. */
  reclaimSpace(): Promise<void>;
  /** After the transaction in progress. A second call does nothing. What waits or comes later is refused with `store.closed`. */
  close(): Promise<void>;
}

/** `Queries` in the three forms that tables need. */
export class Statements {
  readonly #queries: Queries;
  constructor(queries: Queries) {
    this.#queries = queries;
  }

  /** The first row. */
  get<Row extends SqlRow>(statement: string, ...parameters: SqlParameter[]): Promise<Row | undefined> {
    return this.#queries.query<Row>(statement, parameters).then(({ rows }) => rows[0]);
  }

  all<Row extends SqlRow>(statement: string, ...parameters: SqlParameter[]): Promise<Row[]> {
    return this.#queries.query<Row>(statement, parameters).then(({ rows }) => rows);
  }

  /** @returns how many rows changed */
  run(statement: string, ...parameters: SqlParameter[]): Promise<number> {
    return this.#queries.query(statement, parameters).then(({ numChanged }) => numChanged);
  }
}

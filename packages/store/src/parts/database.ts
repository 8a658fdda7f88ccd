import type { Sql } from '../contract/sql.ts';

/** State of the connection to the database. */
export interface DatabaseState {
  /**
   * Reason why the store cannot write, in words that name no file: a long lock, no response, a full disk.
   * Null if none is known.
   */
  problem(): string | null;
  /**
   * Number of idle connections that the database has ended. When it grows, the database may have crashed, and
   * lost the latest writes that did not wait for the disk. Always 0 without connections.
   */
  numLostConnections(): number;
  /**
   * True if the database does not answer, asked now on a separate connection for at most 2 s. A busy or
   * refusing database is not away. Never rejects.
   */
  isAway(): Promise<boolean>;
  ping(): Promise<void>;
}

export function databaseState(sql: Sql): DatabaseState {
  return {
    problem: () => sql.problem,
    numLostConnections: () => sql.numLostConnections,
    isAway: () => sql.isAway(),
    ping: async () => {
      await sql.query('select 1 from entities limit 1', []);
    },
  };
}

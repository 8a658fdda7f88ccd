import type { ClientConfig } from 'pg';

import { ClosingClient } from './closing-client.ts';

/** A statement takes milliseconds, and so does a connection. */
const PATIENCE_MS = 1_000;

/**
 * Whether the database answers a connection of its own: the connections of a pool may all wait for something else. An answer that refuses the
 * connection or the statement is one too.
 * Never rejects.
 * @param patienceMs for the connection, and again for the statement; default 1 s
 */
export async function databaseAnswers(connection: ClientConfig, patienceMs = PATIENCE_MS): Promise<boolean> {
  const limits = { connectionTimeoutMillis: patienceMs, query_timeout: patienceMs };
  let client: ClosingClient | null = null;
  try {
    client = new ClosingClient({ ...connection, ...limits });
    client.on('error', () => undefined);
    await client.connect();
    await client.query('select 1');
    return true;
  } catch (error) {
    return hasSqlState(error);
  } finally {
    // A server that is silent does not answer this either.
    void client?.end().catch(() => undefined);
  }
}

/** Class 57 is a server that shuts down or starts. */
function hasSqlState(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  return /^(?!57|08)[0-9A-Z]{5}$/.test(code) && !('syscall' in (error as Error));
}

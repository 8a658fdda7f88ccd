import type { ClientConfig } from 'pg';

import { ClosingClient } from './closing-client.ts';

/** Time limit; a statement and a connection each take milliseconds. */
const PATIENCE_MS = 1_000;

/**
 * True if the database answers on a separate connection, because all connections of a pool may be waiting.
 * Refusing the connection or the statement counts as an answer. Never rejects.
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
    // A silent server does not answer this either.
    void client?.end().catch(() => undefined);
  }
}

/** True for errors from a running server. Class 57 is a server that shuts down or starts. */
function hasSqlState(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
  return /^(?!57|08)[0-9A-Z]{5}$/.test(code) && !('syscall' in (error as Error));
}

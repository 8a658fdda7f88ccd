import { DAMAGE_REMEDIES } from '../damage-remedies.ts';
import { StoreError, type StoreErrorCode } from '../../contract/errors.ts';

type Known = { code: StoreErrorCode; what: string };

const BUSY: Known = { code: 'store.busy', what: 'timed out waiting for a lock held by another connection' };
const FULL: Known = {
  code: 'store.busy',
  what: 'timed out waiting for a free connection of this process',
};
const SLOW: Known = { code: 'store.busy', what: 'a statement took too long and was cancelled' };
const LOST: Known = { code: 'store.unavailable', what: 'the connection was lost or refused' };
const SILENT: Known = { code: 'store.unavailable', what: 'the database did not answer' };
const REFUSED: Known = { code: 'store.constraint_violated', what: 'the write violates the schema' };

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const CODES: Readonly<Record<string, Known>> = {
  '22021': REFUSED, // a character that text cannot hold
  '25006': { code: 'store.unavailable', what: 'the database is read-only' },
  '53100': { code: 'store.disk_full', what: 'the disk is full. Free some space and try again' },
  '53300': { code: 'store.unavailable', what: 'the server has too many connections' },
  '25P03': { code: 'store.unavailable', what: 'a transaction was idle for too long and was ended' },
  '40P01': BUSY,
  '42501': { code: 'store.unavailable', what: 'the user lacks a privilege' },
  '54000': REFUSED, // a value too long for an index
  '55P03': BUSY,
  '57014': SLOW,
  XX001: { code: 'store.corrupt', what: `the database is damaged. ${DAMAGE_REMEDIES}` },
  XX002: { code: 'store.corrupt', what: `the database is damaged. ${DAMAGE_REMEDIES}` },
};

/**
 * Faults by the first two characters. `08`: connection, `23`: integrity, `28`: authorization, `53`:
 * resources, `57`: server shutdown, `58`: system.
 */
const CLASSES: Readonly<Record<string, Known>> = {
  '08': LOST,
  '23': REFUSED,
  '28': { code: 'store.unavailable', what: 'the server refuses this user' },
  '3D': { code: 'store.unavailable', what: 'the database does not exist' },
  '53': { code: 'store.unavailable', what: 'the server is out of resources' },
  '57': LOST,
  '58': { code: 'store.unavailable', what: 'reading or writing the database failed' },
};

/**
 * Translates `error` for callers. Returns errors that are neither PostgreSQL's nor the connection's (bugs,
 * our own) unchanged.
 */
export function postgresFault(error: unknown, database: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const known = knownFault(error);
  return known === null
    ? error
    : new StoreError(known.code, `database ${database}: ${known.what} (${error.message})`, { cause: error });
}

/** Remedies for an operator, by words in errors of the driver and of TLS. */
const REMEDIES: readonly (readonly [string, string])[] = [
  ['client password must be', 'the server requires a password: set PGPASSWORD or PGPASSFILE'],
  ['certificate', 'add the certificate of its authority with sslrootcert=PATH in the address'],
  ['does not support SSL', 'remove sslmode from the address, or enable TLS on the server'],
];

/** Translates any failure of a connection attempt: in every case there is no connection. */
export function connectionFault(error: unknown, database: string): unknown {
  const fault = postgresFault(error, database);
  if (fault !== error || !(error instanceof Error)) return fault;
  const remedy = REMEDIES.find(([words]) => error.message.includes(words))?.[1];
  const message = `database ${database}: cannot connect (${error.message})${remedy === undefined ? '' : `; ${remedy}`}`;
  return new StoreError('store.unavailable', message, { cause: error });
}

function knownFault(error: Error): Known | null {
  if (error.message.startsWith('timeout exceeded when trying to connect')) return FULL;
  if (error.message === 'Query read timeout' || error.message === 'timeout expired') return SILENT;
  if (/^(Connection terminated|Client has encountered a connection error|Client was closed)/.test(error.message))
    return LOST;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if ('syscall' in error) return LOST;
  return CODES[code] ?? (/^[0-9A-Z]{5}$/.test(code) ? (CLASSES[code.slice(0, 2)] ?? null) : null);
}

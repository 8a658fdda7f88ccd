import { DAMAGE_REMEDIES } from '../damage-remedies.ts';
import { StoreError, type StoreErrorCode } from '../../contract/errors.ts';

type Known = { code: StoreErrorCode; what: string };

const BUSY: Known = { code: 'store.busy', what: 'others have kept it for longer than a call waits' };
const FULL: Known = {
  code: 'store.busy',
  what: 'all connections of this process were in use for longer than a call waits',
};
const SLOW: Known = { code: 'store.busy', what: 'a statement took too long, and was ended' };
const LOST: Known = { code: 'store.unavailable', what: 'the connection was lost or cannot be made' };
const SILENT: Known = { code: 'store.unavailable', what: 'no answer came' };
const REFUSED: Known = { code: 'store.constraint_violated', what: 'the schema refused the write' };

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const CODES: Readonly<Record<string, Known>> = {
  '22021': REFUSED, // a character that text cannot hold
  '25006': { code: 'store.unavailable', what: 'it is read-only' },
  '53100': { code: 'store.disk_full', what: 'the disk is full; free some space and try again' },
  '53300': { code: 'store.unavailable', what: 'it has too many connections' },
  '25P03': { code: 'store.unavailable', what: 'a transaction stood still for too long, and was ended' },
  '40P01': BUSY,
  '42501': { code: 'store.unavailable', what: 'its user lacks a right' },
  '54000': REFUSED, // a value too long for an index
  '55P03': BUSY,
  '57014': SLOW,
  XX001: { code: 'store.corrupt', what: `it is damaged. ${DAMAGE_REMEDIES}` },
  XX002: { code: 'store.corrupt', what: `it is damaged. ${DAMAGE_REMEDIES}` },
};

/**
 * Faults by the first two characters. `08`: connection, `23`: integrity, `28`: authorization, `53`:
 * resources, `57`: server shutdown, `58`: system.
 */
const CLASSES: Readonly<Record<string, Known>> = {
  '08': LOST,
  '23': REFUSED,
  '28': { code: 'store.unavailable', what: 'it refuses this user' },
  '3D': { code: 'store.unavailable', what: 'it does not exist' },
  '53': { code: 'store.unavailable', what: 'it lacks room' },
  '57': LOST,
  '58': { code: 'store.unavailable', what: 'reading or writing it failed' },
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
  ['client password must be', 'it asks for a password: set PGPASSWORD or PGPASSFILE'],
  ['certificate', 'name the certificate of its authority by sslrootcert=PATH in the address'],
  ['does not support SSL', 'leave sslmode out of the address, or switch TLS on there'],
];

/** Translates any failure of a connection attempt: in every case there is no connection. */
export function connectionFault(error: unknown, database: string): unknown {
  const fault = postgresFault(error, database);
  if (fault !== error || !(error instanceof Error)) return fault;
  const remedy = REMEDIES.find(([words]) => error.message.includes(words))?.[1];
  const message = `database ${database}: no connection can be made (${error.message})${remedy === undefined ? '' : `; ${remedy}`}`;
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

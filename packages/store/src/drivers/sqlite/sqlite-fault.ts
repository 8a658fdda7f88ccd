import { StoreError, type StoreErrorCode } from '../../contract/errors.ts';

import { DAMAGE_REMEDIES as REMEDIES } from '../damage-remedies.ts';

// Primary result codes, https://www.sqlite.org/rescode.html
const CODES: Readonly<Record<number, { code: StoreErrorCode; what: string }>> = {
  5: { code: 'store.busy', what: 'timed out waiting for the write lock held by another process' },
  6: { code: 'store.busy', what: 'a table is locked by another connection' },
  8: { code: 'store.unavailable', what: 'the file is read-only' },
  10: { code: 'store.unavailable', what: 'reading or writing the file failed' },
  11: { code: 'store.corrupt', what: `the file is damaged. ${REMEDIES}` },
  13: { code: 'store.disk_full', what: 'the disk is full. Free some space and try again' },
  14: { code: 'store.unavailable', what: 'the file cannot be opened' },
  19: { code: 'store.constraint_violated', what: 'the write violates the schema' },
  26: { code: 'store.corrupt', what: `not an SQLite database. ${REMEDIES}` },
};

/** Translates `error` for callers. Returns errors that are not SQLite's (bugs, our own) unchanged. */
export function sqliteFault(error: unknown, path: string): unknown {
  if (!(error instanceof Error)) return error;
  if ('code' in error && error.code === 'ERR_INVALID_STATE')
    return new StoreError('store.closed', `the database ${path} is closed`, { cause: error });
  if (!('errcode' in error) || typeof error.errcode !== 'number') return error;
  const known = CODES[error.errcode & 0xff]; // the low byte of an extended code is its primary code
  return known === undefined
    ? error
    : new StoreError(known.code, `database ${path}: ${known.what} (${error.message})`, { cause: error });
}

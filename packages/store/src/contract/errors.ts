/**
 * Stable codes of the faults of `store` that a caller can act on.
 *
 * | code | meaning |
 * |---|---|
 * | `store.corrupt` | the database file fails SQLite's own check; the message names the file |
 * | `store.disk_full` | no space left (SQLITE_FULL, ENOSPC, EDQUOT); nothing of the operation was kept |
 * | `store.schema_newer` | the database was written by a newer release |
 * | `store.busy` | another process held the write lock for longer than a call waits |
 * | `store.unavailable` | the file cannot be opened, read or written (permissions, I/O error) |
 * | `store.closed` | used after `close()` |
 * | `store.constraint_violated` | the schema refused the write, e.g. an unknown entity id |
 * | `store.lease_lost` | the fencing token is stale: another worker has the job, or it has ended |
 * | `store.queue_full` | as many jobs are queued or running as the caller allows |
 * | `store.model_archived` | an archived model takes no training jobs |
 * | `store.cursor_unknown` | a page cursor that never belonged to this list |
 * | `store.key_invalid` | a blob key outside `[a-z0-9-]` segments joined by `/` |
 * | `store.blob_missing`, `store.blob_exists`, `store.blob_corrupt` | as their names |
 */
export type StoreErrorCode =
  | 'store.corrupt'
  | 'store.disk_full'
  | 'store.schema_newer'
  | 'store.busy'
  | 'store.unavailable'
  | 'store.closed'
  | 'store.constraint_violated'
  | 'store.lease_lost'
  | 'store.queue_full'
  | 'store.model_archived'
  | 'store.cursor_unknown'
  | 'store.key_invalid'
  | 'store.blob_missing'
  | 'store.blob_exists'
  | 'store.blob_corrupt';

export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;
  constructor(code: StoreErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

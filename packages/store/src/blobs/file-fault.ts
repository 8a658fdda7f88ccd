import { StoreError } from '../contract/errors.ts';

/** Translates a file system error for callers; errors without a system code (bugs, aborts, our own) come back as they are. */
export function fileFault(error: unknown, what: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError || !('code' in error) || typeof error.code !== 'string')
    return error;
  switch (error.code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new StoreError('store.disk_full', `${what}: the disk is full; free some space and try again`, {
        cause: error,
      });
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
    case 'EIO':
    case 'EMFILE':
    case 'ENFILE':
    case 'ENOTDIR':
      return new StoreError('store.unavailable', `${what}: ${error.message}`, { cause: error });
    default:
      return error;
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

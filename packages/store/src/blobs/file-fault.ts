import { stat } from 'node:fs/promises';
import { StoreError } from '../contract/errors.ts';

/**
 * Translates a file system error for callers. Returns errors without a system code (bugs, aborts, our own)
 * unchanged.
 */
export function fileFault(error: unknown, what: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError || !('code' in error) || typeof error.code !== 'string')
    return error;
  switch (error.code) {
    case 'ENOSPC':
    case 'EDQUOT':
      return new StoreError('store.disk_full', `${what}: the disk is full. Free some space and try again`, {
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

/** True if a rename failed because its target exists. */
export function isTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOTEMPTY' || error.code === 'EEXIST');
}

export function directoryTaken(key: string, options?: ErrorOptions): StoreError {
  const message = `directory ${key} already exists, and directories are never replaced`;
  return new StoreError('store.blob_exists', message, options);
}

/** @throws as {@link fileFault} translates it, if the state is unknown */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw fileFault(error, path);
  }
}

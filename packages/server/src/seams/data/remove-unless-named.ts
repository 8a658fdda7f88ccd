import { type Blobs, type Store, StoreError } from '@trainyard/store';

export interface NamedFile {
  /** key of a blob, or of a directory */
  readonly key: string;
  readonly kind: 'blob' | 'directory';
}

interface Parts {
  readonly store: Pick<Store, 'files'>;
  readonly blobs: Pick<Blobs, 'remove' | 'removeDirectory'>;
  readonly log: (line: string) => void;
}

/**
 * Removes a file if its row could not be written and no row names it. A commit that reports an I/O error may
 * have reached the disk: while that is unknown the file stays, and `removeOrphans` checks it at the next
 * start.
 * @param error thrown by the write of the row
 * @returns true if a row names the file
 */
export async function removeUnlessNamed(parts: Parts, { key, kind }: NamedFile, error: unknown): Promise<boolean> {
  const { store, blobs, log } = parts;
  try {
    // Any other error came before the store was asked, or after it refused.
    if (error instanceof StoreError && (await store.files.isNamed(key))) return true;
    if (isUncertain(error))
      log(`the ${kind} ${key} is kept until the next start: it is unknown whether its row was written`);
    else await (kind === 'blob' ? blobs.remove(key) : blobs.removeDirectory(key));
  } catch (failure) {
    log(`the ${kind} ${key} is kept until the next start: ${String(failure)}`);
  }
  return false;
}

/**
 * Writes the row that names a file, and removes the file if the row is missing in the end.
 * @param write may have taken effect even if it throws
 * @param insist retries `write` as often as needed; default: one call
 * @returns the result of `write`; null if it threw although a row names the file
 * @throws errors of `write`
 */
export async function nameFile<Result>(
  parts: Parts,
  file: NamedFile,
  write: () => Promise<Result>,
  insist: (work: () => Promise<Result>) => Promise<Result> = (work) => work(),
): Promise<Result | null> {
  let doubt: unknown = null;
  try {
    return await insist(async () => {
      try {
        return await write();
      } catch (error) {
        if (isUncertain(error)) doubt = error;
        throw error;
      }
    });
  } catch (error) {
    if (await removeUnlessNamed(parts, file, doubt ?? error)) return null;
    throw error;
  }
}

function isUncertain(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'store.unavailable';
}

import { type Blobs, type Store, StoreError } from '@trainyard/store';

export interface NamedFile {
  /** key of a blob, or of a directory */
  readonly key: string;
  readonly kind: 'blob' | 'directory';
}

interface Parts {
  readonly store: Pick<Store, 'isNamed'>;
  readonly blobs: Pick<Blobs, 'remove' | 'removeDirectory'>;
  readonly log: (line: string) => void;
}

/**
 * Removes a file whose row could not be written, unless a row names it all the same: a commit of the database that reports an I/O error may
 * have reached the disk. While that cannot be told the file stays; `removeOrphans` looks again at the next start, when the log of the
 * database has been read anew.
 *
 * @param error what writing the row threw
 * @returns whether a row names the file
 */
export async function removeUnlessNamed(parts: Parts, { key, kind }: NamedFile, error: unknown): Promise<boolean> {
  const { store, blobs, log } = parts;
  try {
    // Any other error came before the store was asked, or after it said no.
    if (error instanceof StoreError && (await store.isNamed(key))) return true;
    if (isUncertain(error))
      log(`the ${kind} ${key} is kept until the next start: it is unknown whether its row was written`);
    else await (kind === 'blob' ? blobs.remove(key) : blobs.removeDirectory(key));
  } catch (failure) {
    log(`the ${kind} ${key} is kept until the next start: ${String(failure)}`);
  }
  return false;
}

/**
 * Writes the row that names a file, and removes the file when there is no such row in the end.
 *
 * @param write may be done already when it throws
 * @param insist calls it as often as it takes, default once
 * @returns what `write` returns; null when it threw although a row names the file
 * @throws what `write` throws
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

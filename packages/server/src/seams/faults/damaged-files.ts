import { StoreError } from '@trainyard/store';
import { DamagedFileError } from '@trainyard/trainer';

/**
 * The sentence for clients about damaged files; null when the error is another one.
 *
 * @param name of what the files are of, such as `local/p/agent:step3`
 */
export function damageMessage(name: string, error: unknown): string | null {
  const isCorruptBlob = error instanceof StoreError && error.code === 'store.blob_corrupt';
  if (!(error instanceof DamagedFileError) && !isCorruptBlob) return null;
  return damagedBecause(name, error.message);
}

/** @param reason names the file and what is wrong with it */
export function damagedBecause(name: string, reason: string): string {
  return `The files of \`${name}\` are damaged: ${reason}. Restore them from a backup, or delete \`${name}\`; no other model is affected.`;
}

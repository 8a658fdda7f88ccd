import { StoreError } from '@trainyard/store';
import { DamagedFileError } from '@trainyard/trainer';

/**
 * Error message for clients about damaged files; null for any other error.
 * @param name owner of the files, such as `local/p/agent:step3`
 */
export function damageMessage(name: string, error: unknown): string | null {
  const isCorruptBlob = error instanceof StoreError && error.code === 'store.blob_corrupt';
  if (!(error instanceof DamagedFileError) && !isCorruptBlob) return null;
  return damagedBecause(name, error.message);
}

/** @param reason names the file and its fault */
export function damagedBecause(name: string, reason: string): string {
  return `The files of \`${name}\` are damaged: ${reason}. Restore them from a backup, or delete \`${name}\`; no other model is affected.`;
}

import type { Blobs } from '../contract/blobs.ts';
import type { Store } from '../contract/store.ts';

/**
 * Removes blobs and directories that no row names: what a crash left between a commit in one place and its counterpart in the other.
 *
 * A blob that another process is about to name stays (`Store.announceKey`): keys are announced before their files are there, so whatever is listed here was
 * announced by then, and is asked for afterwards.
 *
 * @param prefixes Only keys that begin with one of these are looked at, e.g. `['checkpoints/', 'groups/', 'logs/']`.
 * @returns the removed keys
 */
export async function removeOrphans(
  store: Store,
  blobs: Blobs,
  prefixes: readonly string[],
): Promise<{ directoryKeys: string[]; blobKeys: string[] }> {
  const directories = await blobs.listDirectories();
  const files = await blobs.listKeys();
  const referenced = await store.listReferencedKeys();
  const announced = new Set(await store.listAnnouncedKeys());
  const orphansOf = (keys: readonly string[], kept: ReadonlySet<string>): string[] =>
    keys.filter((key) => !kept.has(key) && !announced.has(key) && prefixes.some((prefix) => key.startsWith(prefix)));
  const directoryKeys = orphansOf(directories, new Set(referenced.directoryKeys));
  const blobKeys = orphansOf(files, new Set(referenced.blobKeys));
  for (const key of directoryKeys) await blobs.removeDirectory(key);
  for (const key of blobKeys) await blobs.remove(key);
  return { directoryKeys, blobKeys };
}

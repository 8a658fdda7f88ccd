import type { Blobs } from '../contract/blobs.ts';
import type { Store } from '../contract/store.ts';

/**
 * Removes blobs and directories that no row names: what a crash left between a commit in one place and its counterpart in the other.
 *
 * For the only process that serves this store, at start, before any job runs: a checkpoint that is just being published is not
 * named by a row yet and would go too.
 *
 * @param prefixes Only keys that begin with one of these are looked at, e.g. `['checkpoints/', 'groups/', 'logs/']`.
 * @returns the removed keys
 */
export async function removeOrphans(
  store: Store,
  blobs: Blobs,
  prefixes: readonly string[],
): Promise<{ artifactKeys: string[]; blobKeys: string[] }> {
  const referenced = await store.listReferencedKeys();
  const orphansOf = (keys: readonly string[], kept: ReadonlySet<string>): string[] =>
    keys.filter((key) => !kept.has(key) && prefixes.some((prefix) => key.startsWith(prefix)));
  const artifactKeys = orphansOf(await blobs.listDirectories(), new Set(referenced.artifactKeys));
  const blobKeys = orphansOf(await blobs.listKeys(), new Set(referenced.blobKeys));
  for (const key of artifactKeys) await blobs.removeDirectory(key);
  for (const key of blobKeys) await blobs.remove(key);
  return { artifactKeys, blobKeys };
}

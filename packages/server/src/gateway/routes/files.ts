import type { RouteParts } from '../parts/server-parts.ts';

/** Removes files without rows. A failure leaves only garbage: it is logged, and the request succeeds. */
export async function removeFiles(
  parts: RouteParts,
  keys: { directoryKeys?: readonly string[]; blobKeys?: readonly string[] },
): Promise<void> {
  const removals = [
    ...(keys.directoryKeys ?? []).map((key) => parts.blobs.removeDirectory(key)),
    ...(keys.blobKeys ?? []).map((key) => parts.blobs.remove(key)),
  ];
  for (const result of await Promise.allSettled(removals)) {
    if (result.status === 'rejected') parts.log(`files of deleted rows are left on disk: ${String(result.reason)}`);
  }
}

import type { Blobs, CheckpointSizes, Store } from '@trainyard/store';
import { formatFileSums, OPTIMIZER_FILE, parseFileSums, SUMS_FILE } from '@trainyard/trainer';

/** Measures the files of a checkpoint and records their sizes; null if the files are gone. */
export async function recordSizes(
  { store, blobs }: { store: Pick<Store, 'retention'>; blobs: Pick<Blobs, 'directoryFiles'> },
  directoryKey: string,
): Promise<CheckpointSizes | null> {
  const sizes = await measureCheckpoint(blobs, directoryKey);
  if (sizes !== null) await store.retention.setSizes(directoryKey, sizes);
  return sizes;
}

/** Sizes of a checkpoint's files; null if they are gone. */
async function measureCheckpoint(
  blobs: Pick<Blobs, 'directoryFiles'>,
  directoryKey: string,
): Promise<CheckpointSizes | null> {
  const files = await blobs.directoryFiles(directoryKey);
  if (files === null) return null;
  const sum = (isOptimizer: boolean): number =>
    files
      .filter(({ path }) => (path === OPTIMIZER_FILE) === isOptimizer)
      .reduce((total, { sizeBytes }) => total + sizeBytes, 0);
  return { sizeBytes: sum(false), optimizerBytes: sum(true) };
}

/** Deletes a checkpoint's optimizer state for good, and its line in the list of digests. */
export async function removeOptimizerState(
  blobs: Pick<Blobs, 'readDirectoryFile' | 'removeDirectoryFile'>,
  directoryKey: string,
): Promise<void> {
  const bytes = await blobs.readDirectoryFile(directoryKey, SUMS_FILE);
  await blobs.removeDirectoryFile(directoryKey, OPTIMIZER_FILE, bytes === null ? null : listWithout(bytes));
}

function listWithout(sums: Uint8Array): { path: string; text: string } {
  const digests = [...parseFileSums(Buffer.from(sums).toString('utf8'))];
  return { path: SUMS_FILE, text: formatFileSums(digests.filter(([name]) => name !== OPTIMIZER_FILE)) };
}

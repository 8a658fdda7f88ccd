import { type Blobs, liveCheckpoints, type Store } from '@trainyard/store';

interface Parts {
  readonly store: Pick<Store, 'retention'>;
  readonly blobs: Pick<Blobs, 'listBin' | 'restore' | 'directoryFiles'>;
}

/**
 * Restores the files of removed checkpoints from the bin, before their rows: after a crash the files are
 * orphans, and a repeat continues.
 * @returns the steps with files, and those of them that had been removed
 */
export async function restoreFiles(
  { store, blobs }: Parts,
  modelId: string,
  steps: readonly number[],
): Promise<{ present: number[]; restored: number[] }> {
  const wanted = new Set(steps);
  const states = (await store.retention.listStates(modelId)).filter(({ step }) => wanted.has(step));
  const removed = states.filter(({ removedAt }) => removedAt !== null);
  const binned = removed.length === 0 ? [] : await blobs.listBin();
  const restored: number[] = [];
  for (const { step, directoryKey } of removed) {
    if (directoryKey === null) continue;
    // The newest item belongs to the latest removal.
    const items = binned.filter(({ kind, key }) => kind === 'directory' && key === directoryKey);
    for (const item of items.toSorted((one, other) => other.binnedAt - one.binnedAt))
      if (await blobs.restore(item)) break;
    if ((await blobs.directoryFiles(directoryKey)) !== null) restored.push(step);
  }
  const live = liveCheckpoints(states).map(({ step }) => step);
  return { present: [...live, ...restored].toSorted((one, other) => one - other), restored };
}

import { type Blobs, liveCheckpoints, type Store } from '@trainyard/store';

interface Parts {
  readonly store: Pick<Store, 'listCheckpointStates'>;
  readonly blobs: Pick<Blobs, 'listBin' | 'restore' | 'directoryFiles'>;
}

/**
 * Brings the files of removed checkpoints back from the bin. Their rows are still removed then: after a crash the files are orphans, and a repeat goes on.
 *
 * @returns the steps whose files are there, and those of them that were removed
 */
export async function restoreFiles(
  { store, blobs }: Parts,
  modelId: string,
  steps: readonly number[],
): Promise<{ present: number[]; restored: number[] }> {
  const wanted = new Set(steps);
  const states = (await store.listCheckpointStates(modelId)).filter(({ step }) => wanted.has(step));
  const removed = states.filter(({ removedAt }) => removedAt !== null);
  const binned = removed.length === 0 ? [] : await blobs.listBin();
  const restored: number[] = [];
  for (const { step, directoryKey } of removed) {
    if (directoryKey === null) continue;
    // The newest is the one that was removed last.
    const items = binned.filter(({ kind, key }) => kind === 'directory' && key === directoryKey);
    for (const item of items.toSorted((one, other) => other.binnedAt - one.binnedAt))
      if (await blobs.restore(item)) break;
    if ((await blobs.directoryFiles(directoryKey)) !== null) restored.push(step);
  }
  const live = liveCheckpoints(states).map(({ step }) => step);
  return { present: [...live, ...restored].toSorted((one, other) => one - other), restored };
}

import type { Store } from '@trainyard/store';

/** Ids of the base models that some trainer which runs now takes jobs of, in this process or another; null: any. */
export type TrainedBaseModels = ReadonlySet<string> | null;

/** @param own those that workers of this process take; null: any */
export async function trainedBaseModels(
  store: Pick<Store, 'listMembers'>,
  own: readonly string[] | null,
): Promise<TrainedBaseModels> {
  if (own === null) return null;
  const trainers = (await store.listMembers()).filter(({ role, isDraining }) => role === 'trainer' && !isDraining);
  return new Set([...own, ...trainers.flatMap(({ baseModels }) => baseModels.map(({ id }) => id))]);
}

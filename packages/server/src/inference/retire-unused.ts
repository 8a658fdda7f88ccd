import type { Store } from '@trainyard/store';

import { isIdentity } from '../contract/adapter-identity.ts';
import type { InferenceBackend } from '../contract/backends.ts';

/** A step is loaded before its row is written: what is younger may be one. */
const YOUNG_MS = 120_000;

/**
 * Retires adapters that servers elsewhere have and that no model has any more: they were deleted while this service, or the server, was away.
 *
 * @param now ms since 1970
 */
export async function retireUnused(
  store: Pick<Store, 'unusedDigests'>,
  inference: Pick<InferenceBackend, 'models' | 'of' | 'trouble' | 'retire'>,
  now: number = Date.now(),
): Promise<void> {
  // Members are as of the last look at their health.
  await inference.trouble();
  const members = inference.models.flatMap(({ id }) => inference.of(id).members?.() ?? []);
  const old = members.flatMap(({ adapters = [] }) => adapters.filter(({ since }) => now - since >= YOUNG_MS));
  const digests = new Set(old.map(({ digest }) => digest).filter((digest) => !isIdentity(digest)));
  if (digests.size === 0) return;
  for (const digest of await store.unusedDigests([...digests])) inference.retire(digest);
}

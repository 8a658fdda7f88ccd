import type { Checkpoints } from '@trainyard/store';

import { isIdentity } from '../../seams/contract/adapter-identity.ts';
import type { InferenceBackend } from '../../seams/contract/backends.ts';

/** A step is loaded before its row is written: a younger adapter may be such a step. */
const YOUNG_MS = 120_000;
const EVERY_MS = 3 * 60_000;

interface Unloading {
  readonly store: { readonly checkpoints: Pick<Checkpoints, 'unusedDigests'> };
  readonly inference: Pick<InferenceBackend, 'models' | 'of' | 'problem' | 'retire' | 'isRemote'>;
  readonly log: (line: string) => void;
  /** Default 3 min. */
  readonly everyMs?: number;
}

/**
 * Calls {@link retireUnused} at the start and every three minutes, until the returned function is called. At
 * the start adapters of any age are retired: an earlier run of this process or its servers loaded them.
 */
export function startUnloading({ store, inference, log, everyMs = EVERY_MS }: Unloading): () => Promise<void> {
  let running = Promise.resolve();
  const round = (youngMs: number): void => {
    running = running
      .then(() => retireUnused({ store, inference, youngMs }))
      .catch((error: unknown) => log(`adapters of deleted models stay loaded for now: ${(error as Error).message}`));
  };
  round(0);
  const timer = setInterval(() => round(YOUNG_MS), everyMs).unref();
  return async () => {
    clearInterval(timer);
    await running;
  };
}

/**
 * Retires adapters loaded by this process or by vLLM servers that no model has any more: they were deleted
 * while this process, or the server, was away.
 * @param options.youngMs minimum age of the adapters checked, ms; default 2 min
 * @param options.now ms since 1970
 */
export async function retireUnused({
  store,
  inference,
  youngMs = YOUNG_MS,
  now = Date.now(),
}: Pick<Unloading, 'store' | 'inference'> & { readonly youngMs?: number; readonly now?: number }): Promise<void> {
  // A remote engine does this itself.
  if (inference.isRemote === true) return;
  // Members and adapters are as of the last health check.
  await inference.problem();
  const models = inference.models.map(({ id }) => inference.of(id));
  const adapters = models.flatMap((model) => [
    ...(model.adapters?.() ?? []),
    ...(model.members?.() ?? []).flatMap((member) => member.adapters ?? []),
  ]);
  const old = adapters.filter(({ since }) => now - since >= youngMs);
  const digests = new Set(old.map(({ digest }) => digest).filter((digest) => !isIdentity(digest)));
  if (digests.size === 0) return;
  for (const digest of await store.checkpoints.unusedDigests([...digests])) inference.retire(digest);
}

import type { Store } from '@trainyard/store';

import { isIdentity } from '../../seams/contract/adapter-identity.ts';
import type { InferenceBackend } from '../../seams/contract/backends.ts';

/** A step is loaded before its row is written: what is younger may be one. */
const YOUNG_MS = 120_000;
/** As often as upkeep does it in a process with HTTP. */
const EVERY_MS = 10 * 60_000;

type Samplers = Pick<InferenceBackend, 'models' | 'of' | 'trouble' | 'retire' | 'isElsewhere'>;

/** Does {@link retireUnused} now and every ten minutes. @returns a function that ends it */
export function startUnloading(
  store: Pick<Store, 'unusedDigests'>,
  inference: Samplers,
  log: (line: string) => void,
): () => void {
  const round = (): void =>
    void retireUnused(store, inference).catch((error: unknown) =>
      log(`adapters of deleted models stay loaded for now: ${(error as Error).message}`),
    );
  round();
  const timer = setInterval(round, EVERY_MS).unref();
  return () => clearInterval(timer);
}

/**
 * Retires adapters that this process, or vLLM servers, have loaded and that no model has any more: they were deleted while this process, or the server, was away.
 *
 * @param now ms since 1970
 */
export async function retireUnused(
  store: Pick<Store, 'unusedDigests'>,
  inference: Samplers,
  now: number = Date.now(),
): Promise<void> {
  // An engine elsewhere does this for itself.
  if (inference.isElsewhere === true) return;
  // Members and adapters are as of the last look at their health.
  await inference.trouble();
  const models = inference.models.map(({ id }) => inference.of(id));
  const adapters = models.flatMap((model) => [
    ...(model.adapters?.() ?? []),
    ...(model.members?.() ?? []).flatMap((member) => member.adapters ?? []),
  ]);
  const old = adapters.filter(({ since }) => now - since >= YOUNG_MS);
  const digests = new Set(old.map(({ digest }) => digest).filter((digest) => !isIdentity(digest)));
  if (digests.size === 0) return;
  for (const digest of await store.unusedDigests([...digests])) inference.retire(digest);
}

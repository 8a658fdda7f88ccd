import { dirname } from 'node:path';

import type { Blobs } from '@trainyard/store';

import { adapterIdentity } from '../../seams/contract/adapter-identity.ts';
import { adapterPath, type InferenceBackend, type PublishStep } from '../../seams/contract/backends.ts';

/** Steps that jobs of a process have published last. */
const NUM_OWN_STEPS = 64;

/** Loads new steps in the engines of a back end; does nothing without `publish`, and for base models that are not in memory. */
export function stepPublisher(
  blobs: Blobs,
  inference: Pick<InferenceBackend, 'publish' | 'isRemote' | 'adapterFormat' | 'isLoaded'>,
): PublishStep {
  return async (baseModel, { digest, directoryKey }, signal) => {
    if (inference.publish === undefined) return null;
    if (inference.isRemote === true)
      return await inference.publish(baseModel, { digest, directoryKey, path: null }, signal);
    // The files may have to be downloaded.
    if (inference.isLoaded?.(baseModel) === false) return null;
    const path = await adapterPath(blobs, directoryKey, inference.adapterFormat);
    if (path === null) return null;
    const adapter = { digest: await adapterIdentity(dirname(path), digest), directoryKey, path };
    return await inference.publish(baseModel, adapter, signal);
  };
}

/** Publisher for the jobs of this process that remembers their last steps. */
export class OwnSteps {
  readonly #digests: string[] = [];

  /** Publishes as the given publisher, and remembers the digest. */
  remembering(publish: PublishStep): PublishStep {
    return async (baseModel, step, signal) => {
      this.#digests.push(step.digest);
      if (this.#digests.length > NUM_OWN_STEPS) this.#digests.shift();
      return await publish(baseModel, step, signal);
    };
  }

  has(digest: string): boolean {
    return this.#digests.includes(digest);
  }
}

import { dirname } from 'node:path';

import type { Blobs } from '@trainyard/store';

import { adapterIdentity } from '../../seams/contract/adapter-identity.ts';
import { adapterPath, type InferenceBackend, type PublishStep } from '../../seams/contract/backends.ts';

/** Loads new steps in the engines of a back end; does nothing if it has no `publish`. */
export function stepPublisher(blobs: Blobs, inference: Pick<InferenceBackend, 'publish' | 'isElsewhere'>): PublishStep {
  return async (baseModel, { digest, directoryKey }, signal) => {
    if (inference.publish === undefined) return null;
    if (inference.isElsewhere === true)
      return await inference.publish(baseModel, { digest, directoryKey, path: null }, signal);
    const path = await adapterPath(blobs, directoryKey);
    if (path === null) return null;
    const adapter = { digest: await adapterIdentity(dirname(path), digest), directoryKey, path };
    return await inference.publish(baseModel, adapter, signal);
  };
}

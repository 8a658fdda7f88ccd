import type { Store } from '@trainyard/store';

import type { InferenceBackend } from '../../contract/backends.ts';
import type { BaseModelPaths } from '../../jobs/base-model-path.ts';
import { Membership } from '../../members/membership.ts';
import { ModelDigests } from '../../members/model-digests.ts';
import type { AdapterFiles } from './adapter-files.ts';
import type { EnginePort } from './engine-port.ts';

interface EngineParts {
  readonly store: Store;
  readonly inference: InferenceBackend;
  readonly modelPaths: BaseModelPaths;
  readonly adapters: AdapterFiles;
  readonly port: EnginePort;
  /** where API processes reach the port */
  readonly url: string;
  /** requests in flight */
  readonly capacity: number;
  readonly log: (line: string) => void;
}

/**
 * Says in the database where this engine is and what it has.
 * @throws {StoreError}
 */
export async function registerEngine(
  parts: EngineParts,
): Promise<{ readonly membership: Membership; close(): Promise<void> }> {
  const { store, inference, modelPaths, adapters, port, url, capacity, log } = parts;
  const digests = new ModelDigests(log);
  const digestOf = (id: string): string | null => {
    const path = modelPaths(id);
    return path === null ? null : digests.of(path, () => void membership.tell());
  };
  const membership = new Membership({
    store,
    role: 'engine',
    url,
    facts: () => ({
      baseModels: inference.models.map(({ id, vocabSize }) => ({ id, fileDigest: digestOf(id), vocabSize })),
      capacity,
      adapterDigests: adapters.digests,
      isDraining: port.isDraining,
    }),
    log,
  });
  await membership.open();
  return {
    membership,
    close: async () => {
      await digests.close();
      await membership.close();
    },
  };
}

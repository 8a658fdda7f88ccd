import type { Store } from '@trainyard/store';

import type { InferenceBackend } from '../../seams/contract/backends.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import type { MachineProblem } from '../members/machine-problem.ts';
import { ModelMembership } from '../members/model-membership.ts';
import type { AdapterFiles } from './adapter-files.ts';
import type { EnginePort } from './engine-port.ts';

interface EngineParts {
  readonly store: Store;
  readonly inference: InferenceBackend;
  readonly modelPaths: BaseModelPaths;
  readonly adapters: AdapterFiles;
  readonly port: EnginePort;
  readonly machine: MachineProblem;
  /** address of the port for API processes */
  readonly url: string;
  /** maximum number of requests in flight */
  readonly capacity: number;
  readonly log: (line: string) => void;
}

/**
 * Registers this engine in the database: its address and its models.
 * @throws {StoreError}
 */
export async function registerEngine(parts: EngineParts): Promise<ModelMembership> {
  const { store, inference, modelPaths, adapters, port, machine, url, capacity, log } = parts;
  const membership = new ModelMembership({
    store,
    role: 'engine',
    url,
    modelPaths,
    baseModels: () => inference.models.map(({ id, vocabSize }) => ({ id, vocabSize })),
    facts: () => ({
      capacity,
      adapterDigests: adapters.digests,
      isDraining: port.isDraining,
      machineTrouble: machine.problem,
    }),
    log,
  });
  await membership.open();
  return membership;
}

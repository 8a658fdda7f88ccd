import type { Store } from '@trainyard/store';

import type { ComputeShares } from '../../hosts/computing/compute-arbiter.ts';
import type { InferenceBackend } from '../../seams/contract/backends.ts';
import { RemoteEngines } from '../../cluster/pool/remote-engines.ts';
import type { ModelCheck } from '../../seams/integrity/model-check.ts';
import type { BaseScores } from '../../hosts/pool/base-scores.ts';
import { RequestCapacity } from '../../hosts/pool/request-capacity.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { EngineSecret } from '../../cluster/wire/engine-secret.ts';
import { type AddBaseModel, openGrowingInference, servedPaths } from './open-inference.ts';
import { does } from '../../seams/contract/role.ts';

interface SamplingParts {
  readonly store: Store;
  readonly cacheDirectory: string;
  readonly cores: ComputeShares;
  readonly niceness: number;
  readonly scores: BaseScores;
  readonly files: ModelCheck;
  readonly log: (line: string) => void;
}

/** Sampling for HTTP, and the files for training in this process. */
export interface Sampling {
  readonly inference: InferenceBackend & { start(): Promise<void>; close(): Promise<void> };
  readonly modelPaths: BaseModelPaths;
  /** Null: other processes sample. */
  readonly addBaseModel: AddBaseModel | null;
}

/**
 * Opens sampling for HTTP, not started: hosts of this process, or remote engines.
 * @throws {ServerError} for an unreadable model file
 */
export async function openSampling(config: ServiceConfig, { store, ...parts }: SamplingParts): Promise<Sampling> {
  const { role, engineSecret, maxRequests, modelId: defaultModel } = config;
  if (does(role, 'engine')) {
    const { inference, addBaseModel } = await openGrowingInference(config, parts);
    return { inference, modelPaths: (id) => inference.pathOf(id), addBaseModel };
  }
  if (engineSecret === null) throw new Error('remote engines need a secret');
  const secret = new EngineSecret(engineSecret);
  const capacity = new RequestCapacity(maxRequests);
  const inference = new RemoteEngines({ store, secret, capacity, defaultModel, log: parts.log });
  const modelPaths = does(role, 'trainer') ? await servedPaths(config, parts) : () => null;
  return { inference, modelPaths, addBaseModel: null };
}

import { inspectInChild } from './inference/inspect-in-child.ts';
import type { ServiceConfig } from './service/config.ts';
import { type ModelConfig, refuseMissingModels } from './service/model-settings.ts';
import { hostOptionsOf } from './service/open-inference.ts';
import { dataPaths } from './data/data-directory.ts';

/**
 * Looks at the file of a base model as a start does, in a child process.
 *
 * @throws {ServerError} `server.model_missing`; `server.host_failed_to_start`, with the reason: no file, cut off, nothing that can be computed here
 */
export async function examineModel(model: ModelConfig, config: ServiceConfig): Promise<void> {
  refuseMissingModels([model]);
  // A copy in another precision, which takes minutes and gigabytes, is left to the start: these two need none.
  const precision = config.precision === 'bf16' ? 'bf16' : 'fast';
  const { models: cacheDirectory } = dataPaths(config.dataDirectory);
  await inspectInChild(hostOptionsOf(model, { ...config, precision }, { cacheDirectory }), () => undefined);
}

import { inspectInChild } from '../../hosts/pool/inspect-in-child.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { type ModelConfig, refuseMissingModels } from '../settings/model-settings.ts';
import { hostOptionsOf } from '../parts/open-inference.ts';
import { dataPaths } from '../../seams/data/data-directory.ts';

/**
 * Looks at the file of a base model as a start does, in a child process.
 *
 * @returns why it cannot be trained, null when it can
 * @throws {ServerError} `server.model_missing`; `server.host_failed_to_start`, with the reason: no file, cut off, nothing that can be computed here
 */
export async function examineModel(model: ModelConfig, config: ServiceConfig): Promise<{ untrainable: string | null }> {
  refuseMissingModels([model]);
  // A copy in another precision, which takes minutes and gigabytes, is left to the start: these two need none.
  const precision = config.precision === 'bf16' ? 'bf16' : 'fast';
  const { models: cacheDirectory } = dataPaths(config.dataDirectory);
  const options = hostOptionsOf(model, { ...config, precision }, { cacheDirectory });
  const { served } = await inspectInChild(options, () => undefined);
  return { untrainable: served.untrainable ?? null };
}

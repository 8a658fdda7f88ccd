import { existsSync } from 'node:fs';

import { copyPath, copySource } from '@trainyard/trainer';

import { inspectInChild } from '../../hosts/pool/inspect-in-child.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { refuseMissingModels } from '../settings/model-files.ts';
import type { ModelConfig } from '../settings/model-settings.ts';
import { hostOptionsOf } from '../parts/open-inference.ts';
import { dataPaths } from '../../seams/data/data-directory.ts';

/**
 * Checks a base model's file like a start, in a child process. A folder that no start has converted yet is read,
 * except for the values of its weights.
 * @returns the reason why it cannot be trained, or null
 * @throws {ServerError} `server.model_missing`; `server.host_failed_to_start`, with the reason: no file,
 * truncated, not computable here
 */
export async function examineModel(given: ModelConfig, config: ServiceConfig): Promise<{ untrainable: string | null }> {
  // A start downloads it.
  if (given.hub !== null) return { untrainable: null };
  refuseMissingModels([given]);
  // Avoids a copy in another precision, which takes minutes and gigabytes: these two need none.
  const precision = config.precision === 'bf16' ? 'bf16' : 'fast';
  const { models: cacheDirectory } = dataPaths(config.dataDirectory);
  const source = copySource(given.path, given.chatTemplate);
  const path = source === null ? given.path : copyPath(source, cacheDirectory);
  if (!existsSync(path)) return { untrainable: null };
  const model = { ...given, path };
  const options = hostOptionsOf(model, { ...config, precision }, { cacheDirectory });
  const { served } = await inspectInChild(options, () => undefined);
  return { untrainable: served.untrainable ?? null };
}

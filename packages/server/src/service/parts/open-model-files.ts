import { copyPaths } from '@trainyard/trainer';

import { dataPaths } from '../../seams/data/data-directory.ts';
import { type FilesOfModel, type ModelCheck, modelCheck } from '../../seams/integrity/model-check.ts';
import { ModelFiles } from '../../seams/integrity/model-files.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { ServiceConfig } from '../settings/config.ts';

/** Checks of this process's model files, which are read in the background from `watch` on. */
export function openModelFiles(
  config: ServiceConfig,
  { cleanups, log }: { readonly cleanups: (() => unknown)[]; readonly log: Log },
): { readonly files: ModelCheck; readonly watch: (servedPath: BaseModelPaths) => void } {
  const { models: cacheDirectory, modelDigests: recordPath } = dataPaths(config.dataDirectory);
  const files = new ModelFiles({ recordPath, accepts: config.acceptModels === 'on', log });
  cleanups.push(() => files.close());
  const ofModels = new Map<string, FilesOfModel>(
    config.models.map(({ id, path }) => [id, { path, copies: copyPaths(path, cacheDirectory) }]),
  );
  return {
    files: modelCheck(files, (id) => ofModels.get(id) ?? null),
    watch: (servedPath) => {
      const served = [...ofModels.keys()].map(servedPath).filter((path) => path !== null);
      files.watch([...served, ...Array.from(ofModels.values(), ({ path }) => path)]);
    },
  };
}

import { copyPaths } from '@trainyard/trainer';

import { dataPaths } from '../../seams/data/data-directory.ts';
import { type FilesOfModel, type ModelCheck, modelCheck } from '../../seams/integrity/model-check.ts';
import { ModelFiles } from '../../seams/integrity/model-files.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { ServiceConfig } from '../settings/config.ts';
import type { ModelConfig } from '../settings/model-settings.ts';

export interface OpenModelFiles {
  readonly files: ModelCheck;
  /** Reads the files in the background from now on. */
  readonly watch: (servedPath: BaseModelPaths) => void;
  /** Adds the file of a further base model. */
  readonly add: (model: Pick<ModelConfig, 'id' | 'path'>) => void;
}

/** Checks of this process's model files, which are read in the background from `watch` on. */
export function openModelFiles(
  config: ServiceConfig,
  { cleanups, log }: { readonly cleanups: (() => unknown)[]; readonly log: Log },
): OpenModelFiles {
  const { models: cacheDirectory, modelDigests: recordPath } = dataPaths(config.dataDirectory);
  const files = new ModelFiles({ recordPath, accepts: config.acceptModels === 'on', log });
  cleanups.push(() => files.close());
  const ofModels = new Map<string, FilesOfModel>();
  const add: OpenModelFiles['add'] = ({ id, path }) =>
    ofModels.set(id, { path, copies: copyPaths(path, cacheDirectory) });
  for (const model of config.models) add(model);
  return {
    add,
    files: modelCheck(files, (id) => ofModels.get(id) ?? null),
    watch: (servedPath) => {
      const served = [...ofModels.keys()].map(servedPath).filter((path) => path !== null);
      files.watch([...served, ...Array.from(ofModels.values(), ({ path }) => path)]);
    },
  };
}

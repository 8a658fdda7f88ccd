import { JobFault } from '../faults/http-faults.ts';

/**
 * The file of a base model that trainer and sampler agree on, by the model's id; null when that model is not served. Asked for each job: the file is known only
 * once the service has started, and need not be in memory.
 */
export type BaseModelPaths = (id: string) => string | null;

/**
 * @param subject what is based on it, as in `the model`
 * @throws {JobFault} `trainer.config_invalid` when it is not served: adapters fit no other weights
 */
export function baseModelPath(paths: BaseModelPaths, id: string, subject: string): string {
  const path = paths(id);
  if (path !== null) return path;
  throw new JobFault('trainer.config_invalid', `${subject} is based on ${id}, which is not served now`);
}

import { JobFault } from '../faults/http-faults.ts';

/**
 * File that trainer and sampler share for a base model, by the model's id; null if it is not served. Called
 * per job: the file is known only after the start, and may not be in memory.
 */
export type BaseModelPaths = (id: string) => string | null;

/**
 * @param subject the thing based on it, such as `the model`
 * @throws {JobFault} `trainer.config_invalid` if it is not served: an adapter fits only its own base model
 */
export function baseModelPath(paths: BaseModelPaths, id: string, subject: string): string {
  const path = paths(id);
  if (path !== null) return path;
  throw new JobFault('trainer.config_invalid', `${subject} is based on ${id}, which is not served now`);
}

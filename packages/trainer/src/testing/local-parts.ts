import { ProgressFiles } from '../job/progress-records.ts';
import type { TrainingParts } from '../job/training-job.ts';
import { EmbeddedLearner, type EmbeddedLearnerOptions } from '../learner/embedded-learner.ts';
import { LocalVersions } from '../learner/version-folders.ts';

/** Paths are names. */
export function localParts(
  options: Omit<EmbeddedLearnerOptions, 'versions'>,
): Pick<TrainingParts, 'learner' | 'progress'> {
  return {
    learner: new EmbeddedLearner({ ...options, versions: new LocalVersions() }),
    progress: new ProgressFiles(),
  };
}

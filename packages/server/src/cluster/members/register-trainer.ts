import type { Store } from '@trainyard/store';

import type { TrainingQueue } from '../../seams/contract/backends.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import type { MachineTrouble } from './machine-trouble.ts';
import { ModelMembership } from './model-membership.ts';

/** A trainer runs one job after the other, and none while it is in trouble. */
const JOBS_AT_A_TIME = 1;

interface TrainerParts {
  readonly store: Store;
  /** the base models whose jobs it takes, and their limits, and whether it takes them now */
  readonly training: Pick<TrainingQueue, 'baseModels' | 'limits' | 'trouble'>;
  readonly modelPaths: BaseModelPaths;
  readonly machine: MachineTrouble;
  readonly log: (line: string) => void;
}

/**
 * Says in the database that this process trains, until it is closed. It opens no port: whoever wants something of a trainer queues a job.
 *
 * @returns says that it does not any more
 * @throws {StoreError}
 */
export async function registerTrainer({
  store,
  training,
  modelPaths,
  machine,
  log,
}: TrainerParts): Promise<() => Promise<void>> {
  const membership = new ModelMembership({
    store,
    role: 'trainer',
    url: null,
    modelPaths,
    baseModels: () => {
      const { baseModels, limits = null } = training;
      return (baseModels ?? []).map((id) => ({
        id,
        vocabSize: null,
        ...(limits === null ? {} : { trainerLimits: limits }),
      }));
    },
    facts: () => ({
      capacity: training.trouble() === null ? JOBS_AT_A_TIME : 0,
      adapterDigests: [],
      isDraining: false,
      machineTrouble: machine.trouble,
    }),
    log,
  });
  await membership.open();
  return () => membership.close();
}

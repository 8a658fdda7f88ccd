import type { Store } from '@trainyard/store';

import type { TrainingQueue } from '../../seams/contract/backends.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import type { MachineProblem } from './machine-problem.ts';
import { ModelMembership } from './model-membership.ts';

/** A trainer runs one job after the other, and none while it has a problem. */
const JOBS_AT_A_TIME = 1;

interface TrainerParts {
  readonly store: Store;
  /** base models of its jobs, their limits, and its problem */
  readonly training: Pick<TrainingQueue, 'baseModels' | 'limits' | 'problem'>;
  readonly modelPaths: BaseModelPaths;
  readonly machine: MachineProblem;
  readonly log: (line: string) => void;
}

/**
 * Registers in the database, until closed, that this process trains. It opens no port: jobs reach it by the
 * queue.
 * @returns ends the registration
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
      capacity: training.problem() === null ? JOBS_AT_A_TIME : 0,
      adapterDigests: [],
      isDraining: false,
      machineTrouble: machine.problem,
    }),
    log,
  });
  await membership.open();
  return () => membership.close();
}

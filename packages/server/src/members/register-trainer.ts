import type { Store } from '@trainyard/store';

import type { BaseModelPaths } from '../jobs/base-model-path.ts';
import type { MachineTrouble } from './machine-trouble.ts';
import { ModelMembership } from './model-membership.ts';

/** A trainer runs one job after the other. */
const JOBS_AT_A_TIME = 1;

interface TrainerParts {
  readonly store: Store;
  /** ids of the base models whose jobs it takes */
  readonly modelIds: readonly string[];
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
  modelIds,
  modelPaths,
  machine,
  log,
}: TrainerParts): Promise<() => Promise<void>> {
  const membership = new ModelMembership({
    store,
    role: 'trainer',
    url: null,
    modelPaths,
    baseModels: () => modelIds.map((id) => ({ id, vocabSize: null })),
    facts: () => ({
      capacity: JOBS_AT_A_TIME,
      adapterDigests: [],
      isDraining: false,
      machineTrouble: machine.trouble,
    }),
    log,
  });
  await membership.open();
  return () => membership.close();
}

import type { Store } from '@trainyard/store';

import type { Drain } from '../../seams/health/drain.ts';
import type { MachineProblem } from './machine-problem.ts';
import { Membership } from './membership.ts';

interface ApiParts {
  readonly store: Store;
  /** its address */
  readonly url: string;
  /** maximum number of sampling requests in flight */
  readonly capacity: number;
  readonly machine: MachineProblem;
  readonly drain: Pick<Drain, 'isDraining'>;
  readonly log: (line: string) => void;
}

/**
 * Registers in the database, until closed, that this process answers HTTP. Only for information: no requests
 * are routed by it.
 * @throws {StoreError}
 */
export async function registerApi({ store, url, capacity, machine, drain, log }: ApiParts): Promise<Membership> {
  const facts = () => ({
    baseModels: [],
    capacity,
    adapterDigests: [],
    isDraining: drain.isDraining,
    machineTrouble: machine.problem,
  });
  const membership = new Membership({ store, role: 'api', url, facts, log });
  await membership.open();
  return membership;
}

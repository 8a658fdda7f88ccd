import type { Store } from '@trainyard/store';

import type { Drain } from '../../seams/health/drain.ts';
import type { MachineTrouble } from './machine-trouble.ts';
import { Membership } from './membership.ts';

interface ApiParts {
  readonly store: Store;
  /** where it answers */
  readonly url: string;
  /** requests to sample that it has in flight at most */
  readonly capacity: number;
  readonly machine: MachineTrouble;
  readonly drain: Pick<Drain, 'isDraining'>;
  readonly log: (line: string) => void;
}

/**
 * Says in the database that this process answers HTTP, until it is closed: for whoever looks at a service, since nobody is sent here.
 * @throws {StoreError}
 */
export async function registerApi({ store, url, capacity, machine, drain, log }: ApiParts): Promise<Membership> {
  const facts = () => ({
    baseModels: [],
    capacity,
    adapterDigests: [],
    isDraining: drain.isDraining,
    machineTrouble: machine.trouble,
  });
  const membership = new Membership({ store, role: 'api', url, facts, log });
  await membership.open();
  return membership;
}

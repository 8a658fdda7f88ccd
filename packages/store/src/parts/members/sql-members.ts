import { type Access, HEARTBEAT } from '../access.ts';
import type { Members } from './members.ts';

/** Members of this process do not wait for the disk: after a power failure they register again. */
export function sqlMembers({ tables, instanceId, now, write }: Access): Members {
  return {
    register: (member, leaseMs) => write(({ members }) => members.put(instanceId, member, leaseMs, now()), HEARTBEAT),
    renew: (role, facts, leaseMs) =>
      write(({ members }) => members.renew(instanceId, role, facts, now() + leaseMs), HEARTBEAT),
    list: async () => await tables.members.list(now()),
    remove: (role) => write(({ members }) => members.remove(instanceId, role), HEARTBEAT),
  };
}

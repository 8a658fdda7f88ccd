import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

import type { OwnService } from '../../scripts/own-service.ts';

/** Process id of one of the service's hosts. */
export function hostPid(service: OwnService, name: 'engine' | 'trainer'): number {
  const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(service.pid)], { encoding: 'utf8' });
  const pid = stdout
    .trim()
    .split(/\s+/)
    .map(Number)
    .find((child) => readFileSync(`/proc/${child}/cmdline`, 'utf8').includes(`${name}-host.ts`));
  if (pid === undefined) throw new Error(`the service has no ${name} host`);
  return pid;
}

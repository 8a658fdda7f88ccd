import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Process ids of the direct children of a process. */
export function childrenOf(pid: number): number[] {
  const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' });
  return stdout.trim().split(/\s+/).filter(Boolean).map(Number);
}

/** Process id of one of a service's hosts. */
export function hostOf(servicePid: number, name: 'engine' | 'trainer'): number {
  const pid = childrenOf(servicePid).find((child) =>
    readFileSync(`/proc/${child}/cmdline`, 'utf8').includes(`/${name}-host.`),
  );
  if (pid === undefined) throw new Error(`the service has no ${name} host`);
  return pid;
}

/** Current and peak resident memory of a process, in MB. */
export function residentMb(pid: number): { peak: number; now: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const megabytes = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
  return { peak: megabytes('VmHWM'), now: megabytes('VmRSS') };
}

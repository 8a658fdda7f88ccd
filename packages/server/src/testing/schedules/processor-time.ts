import { readFileSync } from 'node:fs';

/** Unit of `/proc`, on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;
/** Places in `/proc/self/stat` behind the name: of processes that have ended and were waited for, in their own code and in the kernel. */
const [ENDED_USER, ENDED_KERNEL] = [13, 14];

/** Seconds that this process has computed, and those that it started and that have ended; null where the system does not say. */
export function processorSeconds(): number | null {
  const { user, system } = process.cpuUsage();
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ');
    const ended = Number(fields[ENDED_USER]) + Number(fields[ENDED_KERNEL]);
    return (user + system) / 1e6 + ended / TICKS_PER_SECOND;
  } catch {
    return null;
  }
}

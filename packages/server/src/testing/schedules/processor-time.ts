import { readFileSync } from 'node:fs';

/** Unit of `/proc`, on every Linux with Node. */
const TICKS_PER_SECOND = 100;
/** Positions in `/proc/self/stat` after the name: times of ended children, in user code and in the kernel. */
const [ENDED_USER, ENDED_KERNEL] = [13, 14];

/** Processor seconds of this process and its ended children; null if the system does not report them. */
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

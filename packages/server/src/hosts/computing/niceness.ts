import { constants, getPriority, setPriority } from 'node:os';

/**
 * Ratio of processor time per step of niceness on Linux (sched(7)); on other systems a higher value also
 * means later.
 */
const RATIO_OF_STEP = 1.25;

/**
 * Niceness that gives a process this share of the cores against one that wants the rest.
 * @param share in (0, 1)
 * @returns 0 for half and more: a process is never raised; the others are lowered
 */
export function nicenessOfShare(share: number): number {
  return Math.max(0, Math.round(Math.log((1 - share) / share) / Math.log(RATIO_OF_STEP)));
}

/**
 * Lowers the priority of a newly started child relative to this process, and of all threads it starts
 * afterwards.
 * @returns the reason of a failure, or null
 */
export function lowerPriority(pid: number, niceness: number): string | null {
  if (niceness === 0) return null;
  try {
    setPriority(pid, Math.min(constants.priority.PRIORITY_LOW, getPriority() + niceness));
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

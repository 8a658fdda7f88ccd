import { constants, getPriority, setPriority } from 'node:os';

/** Processor time of two processes a step of niceness apart, on Linux (sched(7)); elsewhere lower means later, too. */
const RATIO_OF_STEP = 1.25;

/**
 * The niceness with which a process gets this part of the cores beside one that has the rest and wants it.
 *
 * @param share in (0, 1)
 * @returns 0 for half and more: nobody goes first, the others go behind
 */
export function nicenessOfShare(share: number): number {
  return Math.max(0, Math.round(Math.log((1 - share) / share) / Math.log(RATIO_OF_STEP)));
}

/**
 * Lets a child that was just started go so far behind this process, and with it all threads that it starts from now on.
 *
 * @returns why not, or null
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

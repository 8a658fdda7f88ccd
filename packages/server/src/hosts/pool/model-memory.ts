import type { ModelMemory } from '@trainyard/engine';
import { machineMemory } from '@trainyard/trainer';

/**
 * Default part of the machine's memory for base models; the rest is for training, the service and other
 * programs.
 */
const DEFAULT_PART = 0.7;

export function totalBytes({ weightBytes, cacheBytes, processBytes }: ModelMemory): number {
  return weightBytes + cacheBytes + processBytes;
}

/** Default budget, bytes: a part of the machine's memory, or of this process's limit. */
export function defaultBudget(): number {
  return DEFAULT_PART * machineMemory();
}

export function inMegabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}

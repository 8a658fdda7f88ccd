import { totalmem } from 'node:os';

import type { ModelMemory } from '@trainyard/engine';

/** Part of the machine's memory that base models may take together by default; the rest is for training, the service and everything else. */
const DEFAULT_PART = 0.7;

export function totalBytes({ weightBytes, cacheBytes, processBytes }: ModelMemory): number {
  return weightBytes + cacheBytes + processBytes;
}

/** The budget where none is set, bytes: a part of the machine's memory, or of what this process is limited to. */
export function defaultBudget(): number {
  const limit = process.constrainedMemory();
  return DEFAULT_PART * (limit > 0 ? Math.min(limit, totalmem()) : totalmem());
}

export function inMegabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}

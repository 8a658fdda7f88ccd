import { readFileSync } from 'node:fs';

import { processesBelow } from '../machine.ts';
import { proportionalBytes } from '../serving/local-process.ts';

/** Interval of readings, ms. */
const EVERY_MS = 250;

/** Memory of one process, bytes. */
export interface ProcessMemory {
  readonly name: string;
  /** At the first reading, the maximum, and at the last reading. */
  readonly first: number;
  readonly peak: number;
  readonly last: number;
}

/**
 * Reads the memory of a process and its descendants until stopped: private memory plus a share of shared
 * memory (PSS).
 */
export class MemoryWatch {
  readonly #root: number;
  readonly #seen = new Map<number, ProcessMemory>();
  readonly #timer: NodeJS.Timeout;

  constructor(root: number) {
    this.#root = root;
    this.#look();
    this.#timer = setInterval(() => this.#look(), EVERY_MS);
  }

  /** The processes in order of their start. Empty without /proc. */
  stop(): ProcessMemory[] {
    clearInterval(this.#timer);
    this.#look();
    return [...this.#seen].toSorted(([a], [b]) => a - b).map(([, memory]) => memory);
  }

  #look(): void {
    for (const pid of processesBelow([this.#root])) {
      const bytes = proportionalBytes([pid]);
      // An ended process has none.
      if (bytes === null || bytes === 0) continue;
      const known = this.#seen.get(pid);
      this.#seen.set(
        pid,
        known === undefined
          ? {
              name: pid === this.#root ? 'service' : (hostOf(pid) ?? `process ${pid}`),
              first: bytes,
              peak: bytes,
              last: bytes,
            }
          : { ...known, peak: Math.max(known.peak, bytes), last: bytes },
      );
    }
  }
}

/** `engine`, `trainer`, … for a host; null for another process. */
export function hostOf(pid: number): string | null {
  try {
    return /([a-z]+)-host\.ts/.exec(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.[1] ?? null;
  } catch {
    return null;
  }
}

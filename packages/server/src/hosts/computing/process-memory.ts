import { readGroupFile, readSystemFile } from './control-group.ts';

/** Messages of native code and V8 about a failed allocation, in the last lines of a host. */
const ALLOCATION_FAILED = /out of memory|bad_alloc|cannot allocate memory|failed to allocate|allocation fail|ENOMEM/i;
const MB = 1_000_000;

/** Memory figures of the system; default: Linux files. Unknown on other systems. */
export interface MemoryFiles {
  /** peak memory of a process so far, bytes; null: unknown */
  peakOf(pid: number): number | null;
  /** processes of this control group that the system killed for lack of memory; null: unknown */
  numKilled(): number | null;
}

export class ProcessMemory {
  readonly #files: MemoryFiles;
  readonly #numKilledBefore: number | null;
  #peakBytes = 0;

  constructor(files: MemoryFiles = LINUX_FILES) {
    this.#files = files;
    this.#numKilledBefore = files.numKilled();
  }

  /** Records the peak so far. Call it once a second: after the process ended it cannot be read. */
  look(pid: number): void {
    this.#peakBytes = Math.max(this.#peakBytes, this.#files.peakOf(pid) ?? 0);
  }

  /**
   * Reason why the process ended, if it was memory.
   * @param signal that ended it, not sent by this service
   * @param lastLines of its standard error
   */
  endOf(signal: NodeJS.Signals | null, lastLines: string): string | null {
    const peak =
      this.#peakBytes === 0 ? '' : `; its peak was ${Math.round(this.#peakBytes / MB).toLocaleString('en')} MB`;
    if (signal === 'SIGKILL') {
      const numKilled = this.#files.numKilled();
      const isSure = numKilled !== null && this.#numKilledBefore !== null && numKilled > this.#numKilledBefore;
      return isSure
        ? `the system killed it because the memory was full${peak}`
        : `it was killed (SIGKILL), probably because the memory was full${peak}`;
    }
    return ALLOCATION_FAILED.test(lastLines) ? `it could not allocate memory${peak}` : null;
  }
}

const LINUX_FILES: MemoryFiles = {
  peakOf: (pid) => {
    const kilobytes = /^VmHWM:\s+(\d+) kB/m.exec(readSystemFile(`/proc/${pid}/status`))?.[1];
    return kilobytes === undefined ? null : Number(kilobytes) * 1024;
  },
  numKilled: () => {
    const events = readGroupFile('memory', { v1: 'memory.oom_control', v2: 'memory.events' });
    const count = /^oom_kill (\d+)$/m.exec(events)?.[1];
    return count === undefined ? null : Number(count);
  },
};

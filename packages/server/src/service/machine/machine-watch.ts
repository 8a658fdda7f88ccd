import { readdirSync } from 'node:fs';

import { formatMegabytes } from '@trainyard/protocol/fields';

import { readSystemFile } from '../../hosts/computing/control-group.ts';
import { DiskReserve } from '../../seams/data/disk-reserve.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { ServiceMetrics } from '../../seams/metrics/service-metrics.ts';
import { threadUse, type Use } from './thread-use.ts';

const LOOK_MS = 2_000;
/** Checks per timed write. */
const LOOKS_PER_SYNC = 8;
/** Part of a limit above which one burst may take the rest. */
const NEAR_PART = 0.85;
const CONNECTIONS_PER_LOOK = 16;
const SLOW_SYNC_MS = 1_000;
/** Time for which a slow write is reported. */
const SLOW_TOLD_MS = 60_000;

/** Figures of the system; default: the files of Linux. Null: unknown. */
export interface MachineFigures {
  openFiles(): Use | null;
  threads(): Use | null;
}

/** Figures for metrics, as of the last check; null: unknown. */
export interface MachineState {
  readonly openFiles: Use | null;
  readonly threads: Use | null;
  readonly freeDiskBytes: number | null;
  /** of the last timed write */
  readonly syncSeconds: number | null;
}

interface FoundFigures {
  readonly openFiles: Use | null;
  readonly threads: Use | null;
  readonly at: number;
}

interface MachineWatchOptions {
  readonly disk: Pick<DiskReserve, 'freeBytes' | 'isDiskFull' | 'timeSync'>;
  readonly log: Log;
  readonly figures?: MachineFigures;
  /** ms, monotonic; default `performance.now` */
  readonly now?: () => number;
}

/**
 * Checks the machine's limits before they make the service fail: file handles, threads, disk space and speed.
 */
export class MachineWatch {
  readonly #options: MachineWatchOptions;
  readonly #figures: MachineFigures;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | null = null;
  /**
   * As of `at`, on the watch's clock. Cached, because a reading may open a file per process, and probes need
   * no key.
   */
  #found: FoundFigures | null = null;
  #numLooks = 0;
  #numConnections = 0;
  #syncMs: number | null = null;
  #slowAt = -Infinity;
  #slowMs = 0;
  /** Logged reasons that still hold, by kind. */
  #reported = new Set<string>();

  constructor(options: MachineWatchOptions) {
    this.#options = options;
    this.#figures = options.figures ?? LINUX_FIGURES;
    this.#now = options.now ?? (() => performance.now());
  }

  start(): void {
    this.#timer ??= setInterval(() => void this.look(), LOOK_MS).unref();
    void this.look();
  }

  /** Call it for each new connection: a burst may not last until the next check. */
  readonly sawConnection = (): void => {
    if (++this.#numConnections % CONNECTIONS_PER_LOOK !== 0) return;
    this.#found = { ...this.#fresh(), openFiles: this.#figures.openFiles() };
    this.#report();
  };

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Checks once, and logs new reasons. */
  async look(): Promise<void> {
    if (this.#numLooks++ % LOOKS_PER_SYNC === 0) await this.#timeSync();
    this.#found = null;
    this.#report();
  }

  #report(): void {
    const reasons = this.#reasons();
    for (const [kind, reason] of reasons) if (!this.#reported.has(kind)) this.#options.log(reason, { level: 'warn' });
    this.#reported = new Set(reasons.keys());
  }

  /** Reason why the service may fail soon, for people; null if there is none. */
  get problem(): string | null {
    return [...this.#reasons().values()].join('; ') || null;
  }

  get state(): MachineState {
    const { freeBytes } = this.#options.disk;
    const { openFiles, threads } = this.#fresh();
    return {
      openFiles,
      threads,
      freeDiskBytes: freeBytes,
      syncSeconds: this.#syncMs === null ? null : this.#syncMs / 1000,
    };
  }

  /** Figures at most as old as one check interval. */
  #fresh(): FoundFigures {
    const now = this.#now();
    if (this.#found === null || now - this.#found.at >= LOOK_MS)
      this.#found = { openFiles: this.#figures.openFiles(), threads: this.#figures.threads(), at: now };
    return this.#found;
  }

  async #timeSync(): Promise<void> {
    this.#syncMs = await this.#options.disk.timeSync();
    if (this.#syncMs === null || this.#syncMs < SLOW_SYNC_MS) return;
    this.#slowAt = this.#now();
    this.#slowMs = this.#syncMs;
  }

  #reasons(): Map<string, string> {
    const reasons = new Map<string, string>();
    const { disk } = this.#options;
    const { openFiles: files, threads } = this.#fresh();
    if (isNear(files))
      reasons.set(
        'files',
        `${files.used} of ${files.limit} file handles are in use: at the limit, connections are reset. Raise the limit (ulimit -n, LimitNOFILE)`,
      );
    if (isNear(threads))
      reasons.set(
        'threads',
        `${threads.used} of ${threads.limit} processes and threads are in use: at the limit, no host can start. Raise the limit (ulimit -u, pids.max, TasksMax)`,
      );
    if (disk.isDiskFull)
      reasons.set(
        'disk',
        `the disk of the data folder is full (${formatMegabytes(disk.freeBytes ?? 0)} free): the service samples, but stores nothing. Free some space there`,
      );
    if (this.#now() - this.#slowAt < SLOW_TOLD_MS)
      reasons.set(
        'slow disk',
        `the disk of the data folder is slow: a write took ${(this.#slowMs / 1000).toFixed(1)} s (fsync), and every change waits for it. Check the load and the health of the disk`,
      );
    return reasons;
  }
}

export interface OpenMachineWatch {
  readonly disk: DiskReserve;
  readonly machine: MachineWatch;
  /** Writes the disk reserve and starts the checks. Call it after the start's own writes. */
  start(): void;
  stop(): void;
}

/**
 * Watch of the machine for a process in any role, with its figures in the metrics. Checks nothing until it is
 * started.
 */
export function openMachineWatch(
  { dataDirectory }: { readonly dataDirectory: string },
  { metrics, log }: { readonly metrics: Pick<ServiceMetrics, 'machine'>; readonly log: Log },
): OpenMachineWatch {
  const disk = new DiskReserve(dataDirectory);
  const machine = new MachineWatch({ disk, log });
  metrics.machine.source = machine;
  return {
    disk,
    machine,
    start: () => {
      disk.take();
      machine.start();
    },
    stop: () => machine.stop(),
  };
}

function isNear(use: Use | null): use is Use {
  return use !== null && use.used > use.limit * NEAR_PART;
}

/** Read at the start, while a file handle is free. */
const MAX_OPEN_FILES = Number(/^Max open files +(\d+)/m.exec(readSystemFile('/proc/self/limits'))?.[1] ?? 0);

const LINUX_FIGURES: MachineFigures = {
  openFiles: () => {
    if (MAX_OPEN_FILES === 0) return null;
    try {
      return { used: readdirSync('/proc/self/fd').length, limit: MAX_OPEN_FILES };
    } catch (error) {
      const isOut = (error as NodeJS.ErrnoException).code === 'EMFILE';
      return isOut ? { used: MAX_OPEN_FILES, limit: MAX_OPEN_FILES } : null;
    }
  },
  threads: () => threadUse(),
};

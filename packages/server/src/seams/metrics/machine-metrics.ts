import type { Registry } from 'prom-client';

import { addKnownGauge } from './known-gauge.ts';

/** Figures of the machine; null: unknown. */
export interface MachineFigures {
  readonly openFiles: { readonly used: number; readonly limit: number } | null;
  readonly threads: { readonly used: number; readonly limit: number } | null;
  readonly freeDiskBytes: number | null;
  readonly syncSeconds: number | null;
}

export class MachineMetrics {
  /** Source of the figures; without one they are omitted. */
  source: { readonly state: MachineFigures } | null = null;

  constructor(registry: Registry) {
    const gauge = (name: string, help: string, read: (figures: MachineFigures) => number | null | undefined): void => {
      addKnownGauge(registry, name, help, () => (this.source === null ? null : read(this.source.state)));
    };
    gauge('open_files', 'Open file handles of this process.', ({ openFiles }) => openFiles?.used);
    gauge('max_open_files', 'Limit of file handles of this process.', ({ openFiles }) => openFiles?.limit);
    gauge('threads', 'Processes and threads of its control group or user.', ({ threads }) => threads?.used);
    gauge(
      'max_threads',
      'Limit of processes and threads of the control group or user.',
      ({ threads }) => threads?.limit,
    );
    gauge('disk_free_bytes', 'Free space on the disk of the data folder.', ({ freeDiskBytes }) => freeDiskBytes);
    gauge(
      'disk_sync_seconds',
      'Duration of the last timed write to the disk of the data folder.',
      ({ syncSeconds }) => syncSeconds,
    );
  }
}

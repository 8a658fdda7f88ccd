import { StoreError } from '../contract/errors.ts';

/** Told for so long after the last write that failed: who makes room may have nothing to write. */
const TOLD_MS = 60_000;

/** Whether the disk of a database was full when it was last written to. */
export class FullDisk {
  /** On the clock of `performance.now()`. */
  #failedAt: number | null = null;

  /** A transaction was committed. */
  written(): void {
    this.#failedAt = null;
  }

  /** Something failed. */
  failed(fault: unknown): void {
    if (fault instanceof StoreError && fault.code === 'store.disk_full') this.#failedAt = performance.now();
  }

  /** See `Store.trouble`. */
  get trouble(): string | null {
    if (this.#failedAt === null || performance.now() - this.#failedAt > TOLD_MS) return null;
    return 'the disk of the database is full: nothing is written until there is room';
  }
}

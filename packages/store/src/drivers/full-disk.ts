import { StoreError } from '../contract/errors.ts';

/** Duration of the report after the last failed write: after room is made there may be nothing to write. */
const TOLD_MS = 60_000;

/** Tracks if the disk of a database was full at the last write. */
export class FullDisk {
  /** Time of the failure, on the clock of `performance.now()`. */
  #failedAt: number | null = null;

  written(): void {
    this.#failedAt = null;
  }

  failed(fault: unknown): void {
    if (fault instanceof StoreError && fault.code === 'store.disk_full') this.#failedAt = performance.now();
  }

  /** See `Store.database.problem`. */
  get problem(): string | null {
    if (this.#failedAt === null || performance.now() - this.#failedAt > TOLD_MS) return null;
    return 'the disk of the database is full: nothing is written until space is freed';
  }
}

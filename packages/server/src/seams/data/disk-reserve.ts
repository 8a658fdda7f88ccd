import { fsync, rmSync, statfsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { fillSpace } from '@trainyard/store/places';

/** A start writes some 100 KB: its lock, its member row, the log of the database. */
const RESERVE_BYTES = 8 * 1024 * 1024;
const RESERVE_FILE = 'reserve';

/**
 * File of 8 MB that a start deletes if the disk is full, so that a stopped service can still start. It is
 * rewritten once the service is up, as far as space allows.
 */
export class DiskReserve {
  readonly #path: string;
  readonly #folder: string;

  constructor(dataDirectory: string) {
    this.#folder = dataDirectory;
    this.#path = join(dataDirectory, RESERVE_FILE);
  }

  /** Null if the system does not report it. */
  get freeBytes(): number | null {
    try {
      const { bavail, bsize } = statfsSync(this.#folder);
      return bavail * bsize;
    } catch {
      return null;
    }
  }

  get isDiskFull(): boolean {
    return this.freeBytes !== null && this.freeBytes < RESERVE_BYTES;
  }

  /** Deletes the reserve if the disk is full. Call it before a start writes anything. */
  release(): void {
    if (this.isDiskFull) rmSync(this.#path, { force: true });
  }

  /** Writes the reserve, or as much of it as fits: a part helps, too. */
  take(): void {
    fillSpace(this.#path, RESERVE_BYTES);
  }

  /**
   * Writes a byte of the reserve through to the disk.
   * @returns duration, ms; null if it could not be written
   */
  async timeSync(): Promise<number | null> {
    try {
      const file = await open(this.#path, 'r+');
      try {
        const startedAt = performance.now();
        await file.write(Buffer.of(1), 0, 1, 0);
        await promisify(fsync)(file.fd);
        return performance.now() - startedAt;
      } finally {
        await file.close();
      }
    } catch {
      return null;
    }
  }
}

import { fsync, rmSync, statfsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { fillSpace } from '@trainyard/store';

/** A start writes some 100 KB: its lock, its row among the members, the log of the database. */
const RESERVE_BYTES = 8 * 1024 * 1024;
const RESERVE_FILE = 'reserve';

/**
 * A file of 8 MB that a start gives up if the disk is full, so that a full disk does not keep a stopped service from starting. It is written
 * again once the service is up, as far as there is room.
 */
export class DiskReserve {
  readonly #path: string;
  readonly #folder: string;

  constructor(dataDirectory: string) {
    this.#folder = dataDirectory;
    this.#path = join(dataDirectory, RESERVE_FILE);
  }

  /** Bytes that are free for the service; null where the system does not tell. */
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

  /** Gives the reserve up if the disk is full. Call it before a start writes anything. */
  release(): void {
    if (this.isDiskFull) rmSync(this.#path, { force: true });
  }

  /** Takes the reserve, or as much of it as there is room for: that is of use, too. */
  take(): void {
    fillSpace(this.#path, RESERVE_BYTES);
  }

  /** Writes a byte of the reserve through to the disk. @returns how long that took, ms; null if it could not be written */
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

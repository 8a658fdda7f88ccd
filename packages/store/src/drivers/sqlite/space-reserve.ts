import { existsSync, rmSync } from 'node:fs';

import { fillSpace } from '../../folders/fill-space.ts';

/** Room for the log of one small transaction with pages of 4 KiB, and for a step of its index. */
const PART_BYTES = 128 * 1024;
/** Each transaction on a full disk uses one. */
const NUM_PARTS = 8;
/** Time between two attempts to take back used parts, ms. */
const RETRY_MS = 10_000;

/** Files next to the database that reserve disk space for a few writes that must not fail on a full disk. */
export class SpaceReserve {
  readonly #paths: readonly string[];
  #nextTryAt = 0;

  /** @param databasePath a database on the same disk */
  constructor(databasePath: string) {
    this.#paths = Array.from({ length: NUM_PARTS }, (_, index) => `${databasePath}-reserve-${index}`);
  }

  /** Takes missing parts as far as the disk has room. Does nothing within `RETRY_MS` of the last time. */
  take(): void {
    const now = performance.now();
    if (now < this.#nextTryAt) return;
    this.#nextTryAt = now + RETRY_MS;
    for (const path of this.#paths) {
      if (fillSpace(path, PART_BYTES)) continue;
      rmSync(path, { force: true });
      return;
    }
  }

  /** Frees one part. @returns false if none is left */
  release(): boolean {
    const path = this.#paths.find((one) => existsSync(one));
    if (path === undefined) return false;
    rmSync(path, { force: true });
    this.#nextTryAt = performance.now() + RETRY_MS;
    return true;
  }
}

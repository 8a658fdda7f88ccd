import { existsSync, rmSync } from 'node:fs';

import { fillSpace } from '../../folders/fill-space.ts';

/** Room for the log of one small transaction, whose pages have 4 KiB, and for a step of its index. */
const PART_BYTES = 128 * 1024;
/** One is spent by each transaction on a full disk. */
const NUM_PARTS = 8;
/** Time between two tries to take back what was spent, ms. */
const RETRY_MS = 10_000;

/** Files next to the database that take disk space, so that a few writes that must not fail find some when the disk is full. */
export class SpaceReserve {
  readonly #paths: readonly string[];
  #nextTryAt = 0;

  /** @param databasePath of the database on the same disk */
  constructor(databasePath: string) {
    this.#paths = Array.from({ length: NUM_PARTS }, (_, index) => `${databasePath}-reserve-${index}`);
  }

  /** Takes the space that is not taken yet, as far as the disk has room. Does nothing soon after the last time. */
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

  /** Frees one part. @returns false when none is left */
  release(): boolean {
    const path = this.#paths.find((one) => existsSync(one));
    if (path === undefined) return false;
    rmSync(path, { force: true });
    this.#nextTryAt = performance.now() + RETRY_MS;
    return true;
  }
}

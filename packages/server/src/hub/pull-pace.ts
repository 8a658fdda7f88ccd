import { formatMegabytes } from '@trainyard/protocol/fields';

import type { PullProgress } from './pull-model.ts';

/** Before that, a pace means little. */
const LEAST_MS = 1_000;

/** Progress of one pull, with its pace since the start. Bytes of earlier downloads do not count for the pace. */
export class PullPace {
  readonly #startedMs = performance.now();
  #first: number | null = null;
  #last: PullProgress = { doneBytes: 0, totalBytes: null };

  see(progress: PullProgress): void {
    this.#first ??= progress.doneBytes;
    this.#last = progress;
  }

  get progress(): PullProgress {
    return this.#last;
  }

  /** Seconds to the end at the pace so far; null before there is one. */
  get remainingSeconds(): number | null {
    const { doneBytes, totalBytes } = this.#last;
    const now = doneBytes - (this.#first ?? 0);
    const passedMs = performance.now() - this.#startedMs;
    if (totalBytes === null || now === 0 || passedMs < LEAST_MS) return null;
    return ((totalBytes - doneBytes) / now) * (passedMs / 1_000);
  }

  /** `12.0 of 98.4 MB (12 %)`; without the remaining time. */
  get text(): string {
    const { doneBytes, totalBytes } = this.#last;
    if (totalBytes === null) return formatMegabytes(doneBytes);
    const percent = totalBytes === 0 ? 100 : Math.floor((doneBytes / totalBytes) * 100);
    return `${(doneBytes / 1e6).toFixed(1)} of ${formatMegabytes(totalBytes)} (${percent} %)`;
  }
}

import type { Readable } from 'node:stream';

import { LIFE_SIGN_MS } from './life-signs.ts';
import { HostWatch, type WatchLimits } from './host-watch.ts';

/** Maximum time counted per check: if more has passed, this process itself was stopped, asleep or starved. */
const MAX_LOOK_MS = 2 * LIFE_SIGN_MS;

export interface HostPulseOptions {
  readonly signs: Readable;
  readonly isReady: () => boolean;
  /** called with each check; default: none */
  readonly onLook?: () => unknown;
  readonly onHung: (reason: string) => void;
  readonly limits: WatchLimits;
  /** monotonic milliseconds, default `performance.now` */
  readonly now?: () => number;
}

/** Reads a host's signs of life and checks them once a second. */
export class HostPulse {
  readonly #watch: HostWatch;
  readonly #timer: NodeJS.Timeout;

  constructor({ signs, isReady, onLook, onHung, limits, now }: HostPulseOptions) {
    const clock = now ?? (() => performance.now());
    this.#watch = new HostWatch(limits);
    let rest = '';
    signs.setEncoding('utf8');
    signs.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.#record(line);
    });
    // The host is gone; its exit reports that.
    signs.on('error', () => undefined);
    let lookedAt = clock();
    this.#timer = setInterval(() => {
      onLook?.();
      const passedMs = Math.min(clock() - lookedAt, MAX_LOOK_MS);
      lookedAt = clock();
      const reason = this.#watch.passed(passedMs, isReady());
      if (reason === null) return;
      this.stop();
      onHung(reason);
    }, LIFE_SIGN_MS).unref();
  }

  /** See `HostWatch.problem`. */
  get problem(): string | null {
    return this.#watch.problem;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #record(line: string): void {
    const [numTurns = 0, numSlices = 0, isInSlice = 0, cpuMs = 0] = line.split(' ').map(Number);
    this.#watch.record({ numTurns, numSlices, isInSlice: isInSlice === 1, cpuMs });
  }
}

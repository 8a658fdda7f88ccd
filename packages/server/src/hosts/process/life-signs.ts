import { Worker } from 'node:worker_threads';

/**
 * File descriptor for a host's signs of life: a separate pipe, because a thread cannot use the main thread's
 * channel.
 */
export const LIFE_SIGNS_FD = 4;
/** Time between two signs. */
export const LIFE_SIGN_MS = 1_000;
/** Time between two marks of the main thread: shorter, so that each sign of an idle host has a new mark. */
const MARK_MS = 250;

export const MARKS = { turns: 0, slices: 1, isInSlice: 2, length: 3 } as const;

/** Sends signs of life from a separate thread, even while this one computes, until the process ends. */
export class LifeSigns {
  readonly #marks = new Int32Array(new SharedArrayBuffer(MARKS.length * Int32Array.BYTES_PER_ELEMENT));

  constructor() {
    setInterval(() => this.#add(MARKS.turns), MARK_MS).unref();
    const thread = new Worker(new URL('./life-thread.ts', import.meta.url), {
      workerData: this.#marks,
      // The thread keeps only a few numbers.
      resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
    });
    thread.unref();
    // Without signs the watcher ends this process and starts another.
    thread.on('error', (error) => process.stderr.write(`the signs of life stopped: ${error.message}\n`));
  }

  sliceBegan(): void {
    this.#add(MARKS.slices);
    Atomics.store(this.#marks, MARKS.isInSlice, 1);
  }

  sliceEnded(): void {
    Atomics.store(this.#marks, MARKS.isInSlice, 0);
  }

  #add(place: number): void {
    Atomics.add(this.#marks, place, 1);
  }
}

import { TrainerError } from '../contract/errors.ts';
import type { ComputeOptions } from './policy-model.ts';

// Long enough to make the hand-over negligible, short enough for a waiting decode step.
const TURN_MS = 20;

/** Holds the cores for a pass; reports when to hand them over or end the pass. */
export class ComputeTurns {
  readonly #options: ComputeOptions;
  #heldSince: number | null = null;

  constructor(options: ComputeOptions) {
    this.#options = options;
  }

  /** @throws {TrainerError} `trainer.cancelled` */
  async begin(): Promise<void> {
    this.throwIfCancelled();
    const { gate, signal } = this.#options;
    try {
      await gate?.acquire(signal);
    } catch (error) {
      this.throwIfCancelled();
      throw error;
    }
    this.#heldSince = performance.now();
  }

  /** Another user waits for the cores, and they were held long enough. */
  get isOver(): boolean {
    return (
      this.#heldSince !== null &&
      this.#options.gate?.isWanted === true &&
      performance.now() - this.#heldSince >= TURN_MS
    );
  }

  /** Call in `finally`. */
  finish(): void {
    if (this.#heldSince === null) return;
    this.#heldSince = null;
    this.#options.gate?.release();
  }

  /** @throws {TrainerError} `trainer.cancelled` */
  throwIfCancelled(): void {
    const { signal } = this.#options;
    if (signal?.aborted === true)
      throw new TrainerError('trainer.cancelled', 'training was cancelled', { cause: signal.reason });
  }
}

import { TrainerError } from '../errors.ts';
import type { ComputeOptions } from './policy-model.ts';

// Long enough that asking for the cores (an inter-process message) is noise, short enough that a waiting decode step hardly notices.
const TURN_MS = 20;

/** Takes the cores for a few graph runs at a time, and stops between runs when the job is cancelled. */
export class ComputeTurns {
  readonly #options: ComputeOptions;
  #heldSince: number | null = null;

  constructor(options: ComputeOptions) {
    this.#options = options;
  }

  /**
   * Runs `work` while holding the cores.
   * @throws {TrainerError} `trainer.cancelled`
   */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const { gate, signal } = this.#options;
    if (isAborted(signal)) throw cancelled(signal);
    if (this.#heldSince !== null && performance.now() - this.#heldSince >= TURN_MS) this.finish();
    if (this.#heldSince === null && gate !== undefined) {
      try {
        await gate.acquire(signal);
      } catch (error) {
        throw isAborted(signal) ? cancelled(signal) : error;
      }
      this.#heldSince = performance.now();
    }
    return await work();
  }

  /** Gives the cores back. Call in `finally`. */
  finish(): void {
    if (this.#heldSince === null) return;
    this.#heldSince = null;
    this.#options.gate?.release();
  }
}

const cancelled = (signal: AbortSignal) =>
  new TrainerError('trainer.cancelled', 'training was cancelled', { cause: signal.reason });

const isAborted = (signal: AbortSignal | undefined): signal is AbortSignal => signal?.aborted === true;

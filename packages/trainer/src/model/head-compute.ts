import assert from 'node:assert/strict';
import { float32, int64 } from '../graph/session.ts';
import type { Architecture } from './architecture.ts';
import type { ModelSessions } from './block-sessions.ts';
import type { ComputeTurns } from './compute-turns.ts';
import type { ForwardResult, PackedRow } from './policy-model.ts';
import { ranges } from './row-plan.ts';
import type { ModelWeights } from './weights.ts';

// Of one [rows, V] matrix; a run of the head holds two. Larger ones gain no speed and leave the caches.
const MATRIX_BYTES = 64 * 1024 ** 2;
const MAX_ROWS = 256;

/** Runs the head over the trained tokens of a row, a few hundred at a time. */
export class HeadCompute {
  readonly #architecture: Architecture;
  readonly #weights: ModelWeights;
  readonly #sessions: ModelSessions;

  constructor(architecture: Architecture, weights: ModelWeights, sessions: ModelSessions) {
    this.#architecture = architecture;
    this.#weights = weights;
    this.#sessions = sessions;
  }

  /**
   * @param hidden [T, H] output of the last block
   * @returns with `wantsDirection` also ∂logprob/∂hidden[source], [N, H]; else null
   */
  async forward(
    row: PackedRow,
    turns: ComputeTurns,
    hidden: Float32Array,
    wantsDirection: boolean,
  ): Promise<ForwardResult & { direction: Float32Array | null }> {
    const { hiddenSize, vocabSize } = this.#architecture;
    const { sources, targets } = row;
    assert.equal(sources.length, targets.length, 'each trained token has one source');
    const session = await this.#sessions.get(wantsDirection ? 'directionHead' : 'head');
    const norm = float32(this.#weights.outputNorm, [hiddenSize]);
    const vocabulary = float32(this.#weights.output, [vocabSize, hiddenSize]);
    const logprobs = new Float32Array(targets.length);
    const entropies = new Float32Array(targets.length);
    const direction = wantsDirection ? new Float32Array(targets.length * hiddenSize) : null;
    const maxRows = Math.min(MAX_ROWS, Math.max(1, Math.floor(MATRIX_BYTES / (4 * vocabSize))));
    for (const { start, end } of ranges(targets.length, maxRows)) {
      const x = new Float32Array((end - start) * hiddenSize);
      for (let i = start; i < end; i++) {
        x.set(hidden.subarray(sources[i]! * hiddenSize, (sources[i]! + 1) * hiddenSize), (i - start) * hiddenSize);
      }
      const feeds = {
        x: float32(x, [end - start, hiddenSize]),
        norm,
        vocabulary,
        targets: int64(targets.subarray(start, end), [end - start, 1]),
      };
      const results = {
        logprob: float32(logprobs.subarray(start, end), [end - start, 1]),
        entropy: float32(entropies.subarray(start, end), [end - start, 1]),
        ...(direction === null
          ? {}
          : {
              direction: float32(direction.subarray(start * hiddenSize, end * hiddenSize), [end - start, hiddenSize]),
            }),
      };
      await turns.run(() => session.run(feeds, results));
    }
    // Rounding can take the entropy of a near-certain distribution a hair below zero.
    for (let i = 0; i < entropies.length; i++) entropies[i] = Math.max(0, entropies[i]!);
    return { logprobs, entropies, direction };
  }
}

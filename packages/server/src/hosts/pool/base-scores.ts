import type { FixedScores } from '@trainyard/backend';

/**
 * Scores of fixed tokens by model file, computed on first use: reference values for remote samplers and
 * trainers.
 */
export class BaseScores {
  readonly #score: (modelPath: string) => Promise<FixedScores>;
  readonly #known = new Map<string, Promise<FixedScores>>();

  /** @param score computes them: `scoreInChild` */
  constructor(score: (modelPath: string) => Promise<FixedScores>) {
    this.#score = score;
  }

  /** @throws errors of the computation; the next call tries again */
  of(modelPath: string): Promise<FixedScores> {
    const known = this.#known.get(modelPath);
    if (known !== undefined) return known;
    const scores = this.#score(modelPath);
    this.#known.set(modelPath, scores);
    scores.catch(() => this.#known.delete(modelPath));
    return scores;
  }
}

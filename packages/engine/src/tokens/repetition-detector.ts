import type { RepetitionDetection } from '@trainyard/protocol/fields';

/**
 * Detects a reply that ends in one pattern of tokens, `minCount` times in a row, at one comparison per pattern
 * length and token.
 */
export class RepetitionDetector {
  readonly #minSize: number;
  readonly #minCount: number;
  readonly #tokens: number[] = [];
  /** `[size]`: trailing tokens that equal the token `size` places before them. */
  readonly #runs: Uint32Array;

  /** @param maxTokens of the reply: longer patterns cannot repeat in it */
  constructor({ maxPatternSize, minPatternSize, minCount }: RepetitionDetection, maxTokens: number) {
    this.#minSize = Math.max(1, minPatternSize);
    this.#minCount = minCount;
    const longest = Math.min(maxPatternSize, Math.floor(maxTokens / minCount));
    this.#runs = new Uint32Array(longest + 1);
  }

  /** @returns true if the tokens so far end in a repetition */
  push(token: number): boolean {
    const tokens = this.#tokens;
    const runs = this.#runs;
    let isRepetition = false;
    for (let size = this.#minSize; size < runs.length && size <= tokens.length; size++) {
      runs[size] = tokens[tokens.length - size] === token ? runs[size]! + 1 : 0;
      if (runs[size]! >= size * (this.#minCount - 1)) isRepetition = true;
    }
    tokens.push(token);
    return isRepetition;
  }
}

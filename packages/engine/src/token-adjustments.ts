/** Changes to single logits that come before temperature: the min_tokens mask, logit_bias and the three penalties. */
export interface TokenAdjustments {
  /** Logits set to -Infinity (end and stop ids while fewer than minTokens are generated); null = none. */
  masked: Iterable<number> | null;
  /** Added. */
  logitBias: readonly (readonly [number, number])[];
  /** 1 = off; over the ids of prompt and reply: a positive logit is divided by it, another multiplied. */
  repetitionPenalty: number;
  /** Subtracted once a time the id was generated. */
  frequencyPenalty: number;
  /** Subtracted if the id was generated. */
  presencePenalty: number;
  promptIds: ReadonlySet<number>;
  /** Generated ids and how often. */
  generatedCounts: ReadonlyMap<number, number>;
}

/** True when {@link adjustLogits} would leave the row as it is. */
export function isNeutral(adjustments: TokenAdjustments): boolean {
  return (
    adjustments.masked === null &&
    adjustments.logitBias.length === 0 &&
    adjustments.repetitionPenalty === 1 &&
    adjustments.frequencyPenalty === 0 &&
    adjustments.presencePenalty === 0
  );
}

/** What was changed, so that raw logprobs can be read afterwards. Reused from row to row. */
export class UndoLog {
  readonly #ids: number[] = [];
  readonly #values: number[] = [];

  set(row: Float32Array, id: number, value: number): void {
    this.#ids.push(id);
    this.#values.push(row[id]!);
    row[id] = value;
  }

  restore(row: Float32Array): void {
    while (this.#ids.length > 0) row[this.#ids.pop()!] = this.#values.pop()!;
  }
}

/** In vLLM's order: mask, bias, then repetition, frequency and presence penalty. Changes `row` in place. */
export function adjustLogits(row: Float32Array, adjustments: TokenAdjustments, undo: UndoLog): void {
  const { masked, logitBias, repetitionPenalty, frequencyPenalty, presencePenalty, promptIds, generatedCounts } =
    adjustments;
  if (masked !== null) for (const id of masked) undo.set(row, id, -Infinity);
  for (const [id, bias] of logitBias) undo.set(row, id, row[id]! + bias);
  if (repetitionPenalty !== 1) {
    const penalise = (id: number): void => {
      const logit = row[id]!;
      undo.set(row, id, logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty);
    };
    for (const id of promptIds) penalise(id);
    for (const id of generatedCounts.keys()) if (!promptIds.has(id)) penalise(id);
  }
  if (frequencyPenalty !== 0 || presencePenalty !== 0) {
    for (const [id, count] of generatedCounts) {
      undo.set(row, id, row[id]! - frequencyPenalty * count - presencePenalty);
    }
  }
}

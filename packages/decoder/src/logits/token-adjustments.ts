/** Changes to single logits before temperature. */
export interface TokenAdjustments {
  /** The only token left, unless its logit is already -Infinity; overrides the other fields. null = none. */
  forced: number | null;
  /** Tokens that keep their logits; all others become -Infinity. null = no mask. */
  allowed: readonly number[] | null;
  /** Tokens set to -Infinity because they would complete a bad word now. */
  banned: readonly number[];
  /** End and stop ids, set to -Infinity until minTokens are generated; null = none. */
  masked: Iterable<number> | null;
  /** Added to logits. Distinct ids. */
  logitBias: readonly (readonly [number, number])[];
  /** Divides positive logits of prompt and reply ids and multiplies the others; 1 = off. */
  repetitionPenalty: number;
  /** Subtracted once per generated occurrence of the id. */
  frequencyPenalty: number;
  /** Subtracted if the id was generated. */
  presencePenalty: number;
  promptIds: ReadonlySet<number>;
  generatedCounts: ReadonlyMap<number, number>;
}

export const NO_ADJUSTMENTS: Readonly<TokenAdjustments> = {
  forced: null,
  allowed: null,
  banned: [],
  masked: null,
  logitBias: [],
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  promptIds: new Set(),
  generatedCounts: new Map(),
};

export function isNeutral(adjustments: TokenAdjustments): boolean {
  return (
    adjustments.forced === null &&
    adjustments.allowed === null &&
    adjustments.banned.length === 0 &&
    adjustments.masked === null &&
    adjustments.logitBias.length === 0 &&
    adjustments.repetitionPenalty === 1 &&
    adjustments.frequencyPenalty === 0 &&
    adjustments.presencePenalty === 0
  );
}

/**
 * Limit of a penalised logit: a penalty near 0 or far above 1 would make it infinite, and differences of
 * infinities are NaN.
 */
const LARGEST_LOGIT = 1e30;

/**
 * Logit after a repetition penalty, within ±1e30. Non-finite logits stay: they are masked, or a fault of the
 * model.
 */
export function penalisedLogit(logit: number, repetitionPenalty: number): number {
  if (!Number.isFinite(logit)) return logit;
  const penalised = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
  return Math.max(-LARGEST_LOGIT, Math.min(penalised, LARGEST_LOGIT));
}

/** Log of changed logits, to restore the raw row. Reused. */
export class UndoLog {
  readonly #ids: number[] = [];
  readonly #values: number[] = [];
  readonly #row: Float32Array; // [V]
  #hasRow = false;

  constructor(vocabSize: number) {
    this.#row = new Float32Array(vocabSize);
  }

  set(row: Float32Array, id: number, value: number): void {
    this.#ids.push(id);
    this.#values.push(row[id]!);
    row[id] = value;
  }

  /** Masks all but the given logits. Must come before any `set`. */
  keepOnly(row: Float32Array, ids: readonly number[]): void {
    this.#row.set(row);
    this.#hasRow = true;
    row.fill(-Infinity);
    for (const id of ids) row[id] = this.#row[id]!;
  }

  restore(row: Float32Array): void {
    while (this.#ids.length > 0) row[this.#ids.pop()!] = this.#values.pop()!;
    if (this.#hasRow) row.set(this.#row);
    this.#hasRow = false;
  }

  /** Forgets the changes, which stay in the row. */
  forget(): void {
    this.#ids.length = this.#values.length = 0;
    this.#hasRow = false;
  }
}

/**
 * Changes `row` in place, in vLLM's order: masks, bias, then repetition, frequency and presence penalty. A
 * forced token makes the others idle.
 */
export function adjustLogits(row: Float32Array, adjustments: TokenAdjustments, undo: UndoLog): void {
  const { allowed, banned, masked, logitBias, repetitionPenalty, frequencyPenalty, presencePenalty } = adjustments;
  const { forced, promptIds, generatedCounts } = adjustments;
  // A constraint's mask in the row takes precedence.
  if (forced !== null && row[forced]! > -Infinity) {
    undo.keepOnly(row, [forced]);
    return;
  }
  if (allowed !== null) undo.keepOnly(row, allowed);
  for (const id of banned) undo.set(row, id, -Infinity);
  if (masked !== null) for (const id of masked) undo.set(row, id, -Infinity);
  for (const [id, bias] of logitBias) undo.set(row, id, row[id]! + bias);
  if (repetitionPenalty !== 1) {
    const penalise = (id: number): void => undo.set(row, id, penalisedLogit(row[id]!, repetitionPenalty));
    for (const id of promptIds) penalise(id);
    for (const id of generatedCounts.keys()) if (!promptIds.has(id)) penalise(id);
  }
  if (frequencyPenalty !== 0 || presencePenalty !== 0) {
    for (const [id, count] of generatedCounts) {
      undo.set(row, id, row[id]! - frequencyPenalty * count - presencePenalty);
    }
  }
}

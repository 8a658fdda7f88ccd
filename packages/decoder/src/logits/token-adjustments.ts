/** Changes to single logits that come before temperature: masks, logit_bias, the three penalties, a forced token. */
export interface TokenAdjustments {
  /** The only token left, unless the row has it at -Infinity already; whatever the others say. null = none. */
  forced: number | null;
  /** All other logits are set to -Infinity; null = none are. */
  allowed: readonly number[] | null;
  /** Set to -Infinity: the tokens that would complete a bad word now. */
  banned: readonly number[];
  /** Set to -Infinity: end and stop ids while fewer than minTokens are generated; null = none. */
  masked: Iterable<number> | null;
  /** Added. Of distinct ids. */
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

/** Leaves every row as it is. */
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

/** True when {@link adjustLogits} would leave the row as it is. */
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

/** A penalty near 0 or far above 1 would make a logit infinite, and the differences of two such are no numbers. */
const LARGEST_LOGIT = 1e30;

/** A logit behind a repetition penalty: never beyond ±1e30. One that is not finite stays: it is masked, or a fault of the model. */
export function penalisedLogit(logit: number, repetitionPenalty: number): number {
  if (!Number.isFinite(logit)) return logit;
  const penalised = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
  return Math.max(-LARGEST_LOGIT, Math.min(penalised, LARGEST_LOGIT));
}

/** Records changed logits, so that raw logprobs can be read afterwards. Reused from row to row. */
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

  /** Leaves nothing but the given logits. Comes before any `set`. */
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

  /** The changes stay. */
  forget(): void {
    this.#ids.length = this.#values.length = 0;
    this.#hasRow = false;
  }
}

/** In vLLM's order: masks, bias, then repetition, frequency and presence penalty, which a forced token makes idle. Changes `row` in place. */
export function adjustLogits(row: Float32Array, adjustments: TokenAdjustments, undo: UndoLog): void {
  const { allowed, banned, masked, logitBias, repetitionPenalty, frequencyPenalty, presencePenalty } = adjustments;
  const { forced, promptIds, generatedCounts } = adjustments;
  // A constraint's mask is in the row: it goes before.
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

import { adjustLogits, drawnLogprob, NO_ADJUSTMENTS, RowScan, scanMaxima, UndoLog } from '@trainyard/decoder';
import type { DrawableTokens, TokenAdjustments } from '@trainyard/decoder';
import type { LogitShifts, RowReplay } from '../model/row-replay.ts';

/** Log-probabilities of tokens as the sampler would report them of the same logits: its own passes over a row, in its order. */
export class DrawnRows {
  readonly #scan: RowScan;
  readonly #undo: UndoLog;
  readonly #row: Float32Array;
  readonly #shifts = new WeakMap<LogitShifts, ShiftedLogits>();

  constructor(vocabSize: number) {
    this.#scan = new RowScan(vocabSize);
    this.#undo = new UndoLog(vocabSize);
    this.#row = new Float32Array(vocabSize);
  }

  /**
   * @param logits of the model, `[V]`
   * @param i which trained token of the row
   */
  logprob(logits: Float32Array, token: number, replay: RowReplay | null, i: number): number {
    const row = this.#row;
    row.set(logits);
    const shift = replay?.shifts[replay.shift[i]!];
    if (shift !== undefined) {
      adjustLogits(row, this.#adjustments(shift, replay!.numGenerated[i]!), this.#undo);
      this.#undo.forget();
    }
    const kept = replay?.keptSets[replay.keptSet[i]!] ?? null;
    if (kept !== null) removeOthers(row, kept);
    scanMaxima(row, this.#scan);
    return drawnLogprob(row, token, replay?.temperatures[i] ?? 1, kept, this.#scan);
  }

  #adjustments(shifts: LogitShifts, numGenerated: number): TokenAdjustments {
    let shifted = this.#shifts.get(shifts);
    if (shifted === undefined) this.#shifts.set(shifts, (shifted = new ShiftedLogits(shifts)));
    return shifted.after(numGenerated);
  }
}

/** The adjustments of one choice, from token to token. */
class ShiftedLogits {
  readonly #adjustments: TokenAdjustments;
  readonly #counts = new Map<number, number>();
  readonly #tokenIds: Int32Array;
  #counted = 0;

  constructor(shifts: LogitShifts) {
    const { bias, repetitionPenalty, frequencyPenalty, presencePenalty, promptTokenIds, tokenIds } = shifts;
    this.#tokenIds = tokenIds;
    this.#adjustments = {
      ...NO_ADJUSTMENTS,
      logitBias: bias,
      repetitionPenalty,
      frequencyPenalty,
      presencePenalty,
      promptIds: new Set(repetitionPenalty === 1 ? [] : promptTokenIds),
      generatedCounts: this.#counts,
    };
  }

  after(numGenerated: number): TokenAdjustments {
    if (numGenerated < this.#counted) {
      this.#counts.clear();
      this.#counted = 0;
    }
    for (; this.#counted < numGenerated; this.#counted++) {
      const id = this.#tokenIds[this.#counted]!;
      this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    }
    return this.#adjustments;
  }
}

function removeOthers(row: Float32Array, { isComplement, ids }: DrawableTokens): void {
  if (isComplement) {
    for (const id of ids) row[id] = -Infinity;
    return;
  }
  let next = 0;
  for (const id of ids) {
    row.fill(-Infinity, next, id);
    next = id + 1;
  }
  row.fill(-Infinity, next);
}

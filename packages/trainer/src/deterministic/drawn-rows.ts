import { adjustLogits, drawnLogprob, NO_ADJUSTMENTS, RowScan, scanMaxima, UndoLog } from '@trainyard/decoder';
import type { TokenAdjustments } from '@trainyard/decoder';
import { fillOthers, ReplyCounts } from '../model/row-replay.ts';
import type { LogitShifts, RowReplay } from '../model/row-replay.ts';

/** Log-probabilities that the sampler would report for the same logits. */
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

  /** @param logits of the model, `[V]` @param i index of the trained token in the row */
  logprob(logits: Float32Array, token: number, replay: RowReplay | null, i: number): number {
    const shift = replay?.shifts[replay.shift[i]!];
    const kept = replay?.keptSets[replay.keptSet[i]!] ?? null;
    let row = logits;
    if (shift !== undefined || kept !== null) {
      row = this.#row;
      row.set(logits);
    }
    if (shift !== undefined) {
      adjustLogits(row, this.#adjustments(shift, replay!.numGenerated[i]!), this.#undo);
      this.#undo.forget();
    }
    if (kept !== null) fillOthers(kept, { start: 0, end: row.length }, row, -Infinity);
    scanMaxima(row, this.#scan);
    return drawnLogprob(row, this.#scan, { token, temperature: replay?.temperatures[i] ?? 1, kept });
  }

  #adjustments(shifts: LogitShifts, numGenerated: number): TokenAdjustments {
    let shifted = this.#shifts.get(shifts);
    if (shifted === undefined) this.#shifts.set(shifts, (shifted = new ShiftedLogits(shifts)));
    return shifted.after(numGenerated);
  }
}

class ShiftedLogits {
  readonly #counts: ReplyCounts;
  readonly #fixed: TokenAdjustments;

  constructor(shifts: LogitShifts) {
    const { bias, repetitionPenalty, frequencyPenalty, presencePenalty, promptTokenIds, tokenIds } = shifts;
    this.#counts = new ReplyCounts(tokenIds);
    this.#fixed = {
      ...NO_ADJUSTMENTS,
      logitBias: bias,
      repetitionPenalty,
      frequencyPenalty,
      presencePenalty,
      promptIds: new Set(repetitionPenalty === 1 ? [] : promptTokenIds),
    };
  }

  after(numGenerated: number): TokenAdjustments {
    return { ...this.#fixed, generatedCounts: this.#counts.of(numGenerated) };
  }
}

import { penalisedLogit } from '@trainyard/decoder';
import { lowerBound } from '@trainyard/tokenizer';

import type { TokenRange } from './token-range.ts';

/**
 * Sampling distributions that differ from the model's: a sampler masks tokens, shifts logits and divides them by
 * a temperature. The trained policy's logits get the same treatment, so that both sides compare the same choice.
 *
 * The sampler's kept set is reused: a separate set under the trained policy would give infinite ratios for
 * tokens that only one set has.
 *
 * @see "Keep Sampling Mask", DeepSeek-V3.2, arXiv 2512.02556, section 3.1
 */
export interface RowReplay {
  /** [N] above 0; 1 = plain. */
  readonly temperatures: Float64Array;
  /** [N] index into `keptSets`; -1 = every token could be drawn. */
  readonly keptSet: Int32Array;
  readonly keptSets: readonly KeptSet[];
  /** [N] index into `shifts`; -1 = none. */
  readonly shift: Int32Array;
  /** [N] earlier tokens of the reply, which count for penalties. */
  readonly numGenerated: Int32Array;
  readonly shifts: readonly LogitShifts[];
}

export interface KeptSet {
  /** True: all except `ids`. */
  readonly isComplement: boolean;
  /** Ascending, distinct. */
  readonly ids: Int32Array;
}

/** Applied before the temperature, in vLLM's order: bias, repetition, frequency, presence. */
export interface LogitShifts {
  /** Biases of distinct ids. */
  readonly bias: readonly (readonly [id: number, bias: number])[];
  /** Above 0; 1 = off. Divides positive logits of prompt and reply ids and multiplies the others. */
  readonly repetitionPenalty: number;
  /** Subtracted per generated occurrence of the id. */
  readonly frequencyPenalty: number;
  /** Subtracted if the id was generated. */
  readonly presencePenalty: number;
  readonly promptTokenIds: Int32Array;
  /** The first `numGenerated` tokens of the reply count. */
  readonly tokenIds: Int32Array;
}

/**
 * Logit of a token that could not be drawn: probability 0, without NaN if a part has only such tokens. The
 * others end at ±1e30 after a penalty, and at a hundred times that after a temperature of 0.01.
 */
const MASKED = -1e34;

/**
 * Above it, or below its inverse, a logit's last bit grows to more than a thousandth, too coarse for float32
 * products with the vocabulary. Such logits count as constants, without a derivative.
 */
const LARGEST_PENALTY = 1e3;

export function keeps({ isComplement, ids }: KeptSet, id: number): boolean {
  return (lowerBound(ids, id) < ids.length && ids[lowerBound(ids, id)] === id) !== isComplement;
}

/** logit · scale + offset. */
export interface Adjustment {
  readonly scale: number;
  readonly offset: number;
}

/** A row's replay for the head. */
export class ReplayReader {
  readonly #replay: RowReplay;
  readonly #shifts: readonly ShiftReader[];
  /** Keys are trained tokens; for the current logits. */
  readonly #centres = new Map<number, number>();

  constructor(replay: RowReplay) {
    this.#replay = replay;
    this.#shifts = replay.shifts.map((shifts) => new ShiftReader(shifts));
  }

  /** A token of the range was drawn from another distribution than the model's. */
  touches({ start, end }: TokenRange): boolean {
    const { temperatures, keptSet, shift } = this.#replay;
    for (let i = start; i < end; i++) if (temperatures[i] !== 1 || keptSet[i]! >= 0 || shift[i]! >= 0) return true;
    return false;
  }

  /** @param id could be drawn @param logit of the model @param centre of the i-th token */
  of(i: number, id: number, logit: number, centre: number): Adjustment {
    const { temperatures, shift, numGenerated } = this.#replay;
    const inverse = 1 / temperatures[i]!;
    const { scale, offset } = this.#shifts[shift[i]!]?.of(id, logit, numGenerated[i]!) ?? NEUTRAL;
    return { scale: scale * inverse, offset: (offset - centre) * inverse };
  }

  /**
   * Subtracted from all logits of the i-th token, which changes no probability: 0, or the largest drawable logit
   * if penalties make logits too large for float32 to represent a difference of 1.
   *
   * @param logitOf of the model
   */
  centreOf(i: number, logitOf: (id: number) => number): number {
    if (this.#shifts[this.#replay.shift[i]!]?.isExtreme !== true) return 0;
    let centre = this.#centres.get(i);
    if (centre === undefined) this.#centres.set(i, (centre = this.#findCentre(i, logitOf)));
    return centre;
  }

  /** Call before logits of other weights are read. */
  forgetLogits(): void {
    this.#centres.clear();
  }

  #findCentre(i: number, logitOf: (id: number) => number): number {
    const { shift, numGenerated, keptSet, keptSets } = this.#replay;
    const shifts = this.#shifts[shift[i]!]!;
    const kept = keptSets[keptSet[i]!];
    const moved = new Set(shifts.idsWithin(EVERYWHERE, numGenerated[i]!));
    // Unshifted logits are around 0.
    const areAllMoved = kept?.isComplement === false && kept.ids.every((id) => moved.has(id));
    let largest = areAllMoved ? -Infinity : 0;
    for (const id of moved) {
      if (kept !== undefined && !keeps(kept, id)) continue;
      const logit = logitOf(id);
      const { scale, offset } = shifts.of(id, logit, numGenerated[i]!);
      largest = Math.max(largest, logit * scale + offset);
    }
    return Number.isFinite(largest) ? largest : 0;
  }

  /**
   * @param logitOf of the model, for the row-th token of the range
   * @param into each [rows, C], overwritten
   */
  fill(
    { start, end }: TokenRange,
    columns: TokenRange,
    logitOf: (row: number, id: number) => number,
    { scale, offset }: { readonly scale: Float32Array; readonly offset: Float32Array },
  ): void {
    const { temperatures, keptSet, keptSets, shift, numGenerated } = this.#replay;
    const width = columns.end - columns.start;
    for (let i = start; i < end; i++) {
      const first = (i - start) * width;
      const inverse = 1 / temperatures[i]!;
      const centre = this.centreOf(i, (id) => logitOf(i - start, id));
      const scales = scale.subarray(first, first + width).fill(inverse);
      const offsets = offset.subarray(first, first + width).fill(-centre * inverse);
      for (const id of this.#shifts[shift[i]!]?.idsWithin(columns, numGenerated[i]!) ?? []) {
        const adjustment = this.of(i, id, logitOf(i - start, id), centre);
        scales[id - columns.start] = adjustment.scale;
        offsets[id - columns.start] = adjustment.offset;
      }
      const kept = keptSets[keptSet[i]!];
      if (kept === undefined) continue;
      fillOthers(kept, columns, scales, 0);
      fillOthers(kept, columns, offsets, MASKED);
    }
  }
}

const NEUTRAL: Adjustment = { scale: 1, offset: 0 };
const EVERYWHERE: TokenRange = { start: 0, end: Infinity };

/** @param values of the tokens of these columns */
export function fillOthers(
  { isComplement, ids }: KeptSet,
  columns: TokenRange,
  values: Float32Array,
  value: number,
): void {
  const from = lowerBound(ids, columns.start);
  const to = lowerBound(ids, columns.end);
  if (isComplement) {
    for (let at = from; at < to; at++) values[ids[at]! - columns.start] = value;
    return;
  }
  let next = 0;
  for (let at = from; at < to; at++) {
    const column = ids[at]! - columns.start;
    values.fill(value, next, column);
    next = column + 1;
  }
  values.fill(value, next);
}

/** Token counts in the start of a reply. Cheap if the start grows from call to call. */
export class ReplyCounts {
  readonly #tokenIds: Int32Array;
  readonly #counts = new Map<number, number>();
  #counted = 0;

  constructor(tokenIds: Int32Array) {
    this.#tokenIds = tokenIds;
  }

  /** Valid until the next call. */
  of(length: number): ReadonlyMap<number, number> {
    if (length < this.#counted) {
      this.#counts.clear();
      this.#counted = 0;
    }
    for (; this.#counted < length; this.#counted++) {
      const id = this.#tokenIds[this.#counted]!;
      this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    }
    return this.#counts;
  }
}

class ShiftReader {
  /** Logits shifted by a penalty are constants. */
  readonly isExtreme: boolean;
  readonly #shifts: LogitShifts;
  readonly #bias: ReadonlyMap<number, number>;
  readonly #promptIds: ReadonlySet<number>;
  readonly #counts: ReplyCounts;

  constructor(shifts: LogitShifts) {
    const { repetitionPenalty } = shifts;
    this.isExtreme = repetitionPenalty > LARGEST_PENALTY || repetitionPenalty < 1 / LARGEST_PENALTY;
    this.#shifts = shifts;
    this.#bias = new Map(shifts.bias);
    this.#counts = new ReplyCounts(shifts.tokenIds);
    this.#promptIds = new Set(repetitionPenalty === 1 ? [] : shifts.promptTokenIds);
  }

  of(id: number, logit: number, numGenerated: number): Adjustment {
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = this.#shifts;
    const count = this.#counts.of(numGenerated).get(id) ?? 0;
    let scale = 1;
    let offset = this.#bias.get(id) ?? 0;
    if (repetitionPenalty !== 1 && (count > 0 || this.#promptIds.has(id))) {
      if (this.isExtreme) {
        scale = 0;
        offset = penalisedLogit(logit + offset, repetitionPenalty);
      } else {
        scale = logit + offset > 0 ? 1 / repetitionPenalty : repetitionPenalty;
        offset *= scale;
      }
    }
    if (count > 0) offset -= frequencyPenalty * count + presencePenalty;
    return { scale, offset };
  }

  /** Each id once. */
  *idsWithin({ start, end }: TokenRange, numGenerated: number): Generator<number> {
    const counts = this.#counts.of(numGenerated);
    for (const id of new Set([...this.#bias.keys(), ...this.#promptIds, ...counts.keys()]))
      if (id >= start && id < end) yield id;
  }
}

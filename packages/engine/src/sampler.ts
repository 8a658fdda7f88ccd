import { argmax, drawFromRow, logSumExp, RowScan, scanMaxima, scanSums } from './softmax.ts';
import { adjustLogits, isNeutral, UndoLog } from './token-adjustments.ts';
import type { TokenAdjustments } from './token-adjustments.ts';
import { CandidateBuffer, drawAbove, gatherAbove, kthLargestBound, truncationThreshold } from './truncation.ts';
import type { Truncation } from './truncation.ts';

/** Everything that decides one token besides the logits and the random number. */
export interface SamplingSettings extends Truncation {
  /** 0 = greedy: truncation is off then, the adjustments still apply. */
  temperature: number;
}

/** -Infinity and anything below it on the wire. */
const LOGPROB_FLOOR = -9999;

/** Buffers for rows of one vocabulary; one sampler serves all sequences, one row at a time. */
export class SamplerBuffers {
  readonly scan: RowScan;
  readonly candidates: CandidateBuffer;
  readonly undo = new UndoLog();

  constructor(vocabSize: number) {
    this.scan = new RowScan(vocabSize);
    this.candidates = new CandidateBuffer(vocabSize);
  }
}

/**
 * Chooses one token from a row of logits, in vLLM's order: mask, bias, penalties, greedy pick, temperature, min_p, top_k, top_p, draw.
 *
 * @param row Logits, `[V]`. Adjusted and put back: after the call it holds the raw logits again.
 * @param uniform a random number in [0, 1); unused when greedy
 * @returns the token, and the raw distribution's log Σ exp when `wantsLogSumExp` (else NaN); token -1 when no token is possible
 */
export function sampleToken(
  row: Float32Array,
  settings: SamplingSettings,
  adjustments: TokenAdjustments,
  uniform: number,
  wantsLogSumExp: boolean,
  buffers: SamplerBuffers,
): { token: number; logSumExp: number } {
  const { scan, undo } = buffers;
  const isAdjusted = !isNeutral(adjustments);
  if (isAdjusted) adjustLogits(row, adjustments, undo);
  scanMaxima(row, scan);
  const token = chooseToken(row, settings, uniform, buffers);
  if (!wantsLogSumExp) {
    if (isAdjusted) undo.restore(row);
    return { token, logSumExp: NaN };
  }
  if (isAdjusted) {
    undo.restore(row);
    scanMaxima(row, scan);
  }
  // A plain draw at temperature 1 has summed the raw distribution already.
  if (isAdjusted || settings.temperature !== 1 || isTruncated(settings)) scanSums(scan, 1);
  return { token, logSumExp: logSumExp(scan) };
}

function chooseToken(row: Float32Array, settings: SamplingSettings, uniform: number, buffers: SamplerBuffers): number {
  const { scan, candidates } = buffers;
  const { temperature } = settings;
  if (temperature === 0 || !(scan.maximum > -Infinity)) return argmax(row, scan);
  if (isTruncated(settings)) {
    const threshold = truncationThreshold(row, scan, settings, temperature, candidates);
    return drawAbove(row, scan, threshold, 1 / temperature, uniform, candidates);
  }
  scanSums(scan, 1 / temperature);
  return !(scan.total > 0) ? -1 : drawFromRow(row, scan, 1 / temperature, uniform);
}

function isTruncated(settings: Truncation): boolean {
  return settings.topP < 1 || settings.topK > 0 || settings.minP > 0;
}

/** Natural log of a token's probability, never below {@link LOGPROB_FLOOR}. */
export function logprobOf(logit: number, logSum: number): number {
  return Math.max(logit - logSum, LOGPROB_FLOOR);
}

/**
 * Ids of the `count` largest logits, most likely first, the lower id first among equals.
 * @param scan after `scanMaxima` of this row, as `sampleToken` with `wantsLogSumExp` leaves it
 */
export function mostLikelyTokens(row: Float32Array, count: number, buffers: SamplerBuffers): number[] {
  const { scan, candidates } = buffers;
  const wanted = Math.min(count, row.length);
  if (wanted === 0) return [];
  gatherAbove(row, scan, kthLargestBound(scan, wanted), candidates);
  const ids = Array.from(candidates.ids.subarray(0, candidates.count));
  return ids.sort((a, b) => row[b]! - row[a]! || a - b).slice(0, wanted);
}

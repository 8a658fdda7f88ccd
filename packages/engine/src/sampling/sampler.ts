import { isProcessedMode, type LogprobsMode, type Truncation } from '@trainyard/protocol/fields';
import { drawFromRow } from './draw-from-row.ts';
import type { DrawKey } from './random.ts';
import type { SamplingTracer } from './sampling-tracer.ts';
import {
  adjustLogits,
  argmax,
  centreOf,
  isNeutral,
  logSumExp,
  RowScan,
  scanMaxima,
  scanSums,
  type TokenAdjustments,
  UndoLog,
} from '@trainyard/decoder';
import {
  CandidateBuffer,
  drawAbove,
  gatherAbove,
  isTruncated,
  kthLargestBound,
  truncationThreshold,
} from './truncation.ts';

/** Everything that decides one token besides the logits and the random number. */
export interface SamplingSettings extends Truncation {
  /** 0 = greedy: truncation is off then, the adjustments still apply. */
  temperature: number;
}

/** Buffers for rows of one vocabulary; one sampler serves all sequences, one row at a time. */
export class SamplerBuffers {
  readonly scan: RowScan;
  readonly candidates: CandidateBuffer;
  readonly undo: UndoLog;

  constructor(vocabSize: number) {
    this.undo = new UndoLog(vocabSize);
    this.scan = new RowScan(vocabSize);
    this.candidates = new CandidateBuffer(vocabSize);
  }
}

/**
 * Chooses one token from a row of logits, in vLLM's order: masks, bias, penalties, greedy pick, temperature, min_p, top_k, top_p, draw.
 *
 * @param row Logits, `[V]`. With a `processed` mode it becomes the logits of the distribution that was drawn from (-Infinity = removed), less
 *   `centre`; otherwise it is adjusted and put back, so that after the call it holds the raw logits again.
 * @param key the draw's random numbers; unused when greedy
 * @param logprobs which distribution's log Σ exp is wanted; null = none
 * @param tracer is told what the token was drawn from; null = nobody is. Not with temperature 0.
 * @returns the token, and log Σ exp of what `row` holds now (NaN when not wanted, or where masks took a logit away that is no number); token -1 when no token is possible.
 *   `centre`: what the logits in `row` are smaller by than they were
 */
export function sampleToken(
  row: Float32Array,
  settings: SamplingSettings,
  adjustments: TokenAdjustments,
  key: DrawKey,
  logprobs: LogprobsMode | null,
  buffers: SamplerBuffers,
  tracer: SamplingTracer | null = null,
): { token: number; logSumExp: number; centre: number } {
  const { scan, undo } = buffers;
  const isAdjusted = !isNeutral(adjustments);
  if (isAdjusted) adjustLogits(row, adjustments, undo);
  scanMaxima(row, scan);
  const { token, threshold } = chooseToken(row, settings, key, buffers);
  if (token >= 0 && tracer !== null) {
    const { ids, count } = buffers.candidates;
    tracer.add(row, token, scan, threshold > -Infinity ? ids.subarray(0, count) : null);
  }
  if (logprobs !== null && isProcessedMode(logprobs) && token >= 0) {
    undo.forget();
    return { token, ...processRow(row, threshold, settings.temperature, scan) };
  }
  if (isAdjusted) undo.restore(row);
  if (logprobs === null || token < 0) return { token, logSumExp: NaN, centre: 0 };
  if (isAdjusted) scanMaxima(row, scan);
  // A plain draw at temperature 1 has summed the raw distribution already.
  if (isAdjusted || settings.temperature !== 1 || isTruncated(settings)) scanSums(scan, 1);
  return { token, logSumExp: logSumExp(scan), centre: 0 };
}

/** @returns `threshold`: tokens below it were removed */
function chooseToken(
  row: Float32Array,
  settings: SamplingSettings,
  key: DrawKey,
  buffers: SamplerBuffers,
): { token: number; threshold: number } {
  const { scan, candidates } = buffers;
  const { temperature } = settings;
  // Of an infinite logit nothing is a probability, also where the largest is all that is asked for.
  if (!Number.isFinite(scan.maximum)) return { token: -1, threshold: -Infinity };
  if (temperature === 0) return { token: argmax(row, scan), threshold: -Infinity };
  if (isTruncated(settings)) {
    const threshold = truncationThreshold(row, scan, settings, temperature, candidates);
    return { token: drawAbove(row, scan, threshold, 1 / temperature, key, candidates), threshold };
  }
  scanSums(scan, 1 / temperature);
  const token = !(scan.total > 0) ? -1 : drawFromRow(row, scan, 1 / temperature, key);
  return { token, threshold: -Infinity };
}

/** Temperature and truncation put into the row itself. Greedy counts as temperature 1. @returns log Σ exp of the new row, and what was taken from its logits */
function processRow(
  row: Float32Array,
  threshold: number,
  temperature: number,
  scan: RowScan,
): { logSumExp: number; centre: number } {
  const inverseTemperature = temperature === 0 ? 1 : 1 / temperature;
  const centre = centreOf(scan);
  for (let id = 0; id < row.length; id++)
    row[id] = row[id]! >= threshold ? (row[id]! - centre) * inverseTemperature : -Infinity;
  scanMaxima(row, scan);
  scanSums(scan, 1);
  return { logSumExp: logSumExp(scan), centre: centre * inverseTemperature };
}

/**
 * Ids of the `count` largest logits, most likely first, the lower id first among equals.
 * @param buffers after `scanMaxima` of this row, as `sampleToken` leaves it when logprobs are wanted
 */
export function mostLikelyTokens(row: Float32Array, count: number, buffers: SamplerBuffers): number[] {
  const { scan, candidates } = buffers;
  const wanted = Math.min(count, row.length);
  if (wanted === 0) return [];
  // Masked tokens are not sorted: a constraint may leave fewer than wanted, and the rest is most of the vocabulary.
  gatherAbove(row, scan, Math.max(kthLargestBound(scan, wanted), -Number.MAX_VALUE), candidates);
  const ids = Array.from(candidates.ids.subarray(0, candidates.count));
  ids.sort((a, b) => row[b]! - row[a]! || a - b);
  for (let id = 0; ids.length < wanted; id++) if (row[id] === -Infinity) ids.push(id);
  return ids.slice(0, wanted);
}

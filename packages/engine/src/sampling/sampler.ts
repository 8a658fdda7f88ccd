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
  NO_ADJUSTMENTS,
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
  type RowBuffers,
  truncationThreshold,
} from './truncation.ts';

export interface SamplingSettings extends Truncation {
  /** 0 = greedy: no truncation; the adjustments still apply. */
  temperature: number;
}

/** One sampler serves all sequences, one row at a time. */
export class SamplerBuffers implements RowBuffers {
  readonly scan: RowScan;
  readonly candidates: CandidateBuffer;
  readonly undo: UndoLog;

  constructor(vocabSize: number) {
    this.undo = new UndoLog(vocabSize);
    this.scan = new RowScan(vocabSize);
    this.candidates = new CandidateBuffer(vocabSize);
  }
}

/** Parameters for drawing one token. */
export interface TokenDrawing {
  readonly settings: Readonly<SamplingSettings>;
  /** Random numbers; unused if greedy. */
  readonly key: DrawKey;
  /** Default none. */
  readonly adjustments?: TokenAdjustments;
  /** Distribution for the log Σ exp. Default null: none. */
  readonly logprobs?: LogprobsMode | null;
  /** Receives the drawn distribution, except at temperature 0. Default null: no trace. */
  readonly tracer?: SamplingTracer | null;
}

/**
 * Chooses one token from a row of logits, in vLLM's order: masks, bias, penalties, greedy pick, temperature,
 * min_p, top_k, top_p, draw.
 *
 * @param row logits, `[V]`. With a `processed` mode it becomes the logits of the drawn distribution (-Infinity =
 * removed), less `centre`; otherwise its raw logits are restored.
 * @returns the token, -1 if none is possible; log Σ exp of the final `row` (NaN if not wanted, or if masks
 * removed a NaN logit); and `centre`, subtracted from the logits in `row`
 */
export function sampleToken(
  row: Float32Array,
  { settings, key, adjustments = NO_ADJUSTMENTS, logprobs = null, tracer = null }: TokenDrawing,
  buffers: SamplerBuffers,
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
  // A plain draw at temperature 1 has already summed the raw distribution.
  if (isAdjusted || settings.temperature !== 1 || isTruncated(settings)) scanSums(scan, 1);
  return { token, logSumExp: logSumExp(scan), centre: 0 };
}

/** @returns `threshold`: tokens below it were removed */
function chooseToken(
  row: Float32Array,
  settings: Readonly<SamplingSettings>,
  key: DrawKey,
  buffers: SamplerBuffers,
): { token: number; threshold: number } {
  const { scan } = buffers;
  const { temperature } = settings;
  // An infinite logit gives no probabilities, even for a greedy pick.
  if (!Number.isFinite(scan.maximum)) return { token: -1, threshold: -Infinity };
  if (temperature === 0) return { token: argmax(row, scan), threshold: -Infinity };
  if (isTruncated(settings)) {
    const threshold = truncationThreshold(row, settings, buffers);
    return { token: drawAbove(row, threshold, { inverseTemperature: 1 / temperature, key }, buffers), threshold };
  }
  scanSums(scan, 1 / temperature);
  const token = !(scan.total > 0) ? -1 : drawFromRow(row, scan, 1 / temperature, key);
  return { token, threshold: -Infinity };
}

/**
 * Applies temperature and truncation to the row itself. Greedy counts as temperature 1.
 *
 * @returns log Σ exp of the new row, and the number subtracted from its logits
 */
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
 * Most likely first, the lower id first among equals.
 *
 * @param buffers after `scanMaxima` of this row, as `sampleToken` leaves it when logprobs are wanted
 */
export function mostLikelyTokens(row: Float32Array, count: number, buffers: SamplerBuffers): number[] {
  const { scan, candidates } = buffers;
  const wanted = Math.min(count, row.length);
  if (wanted === 0) return [];
  // Masked tokens are not sorted: under a constraint they are most of the vocabulary.
  gatherAbove(row, Math.max(kthLargestBound(scan, wanted), -Number.MAX_VALUE), buffers);
  const ids = Array.from(candidates.ids.subarray(0, candidates.count));
  ids.sort((a, b) => row[b]! - row[a]! || a - b);
  for (let id = 0; ids.length < wanted; id++) if (row[id] === -Infinity) ids.push(id);
  return ids.slice(0, wanted);
}

import { expNegative, scanSums, type RowScan } from './row-scan.ts';

/** Stored as the smaller of the set and its complement. */
export interface DrawableTokens {
  /** True: all except `ids`. */
  readonly isComplement: boolean;
  /** Ascending. */
  readonly ids: Int32Array;
}

/**
 * Log-probability of a token among those that could be drawn, in nats.
 *
 * The set alone decides the order of the sum, so a recomputation equals the draw to the last bit: few tokens are
 * summed one by one, more than half of the vocabulary in one pass.
 *
 * @param row logits after masks, biases and penalties, `[V]`
 * @param scan after `scanMaxima` of the row, whose maximum is kept; its sums are overwritten
 * @param draw its temperature is above 0; `kept` null: all tokens above -Infinity
 */
export function drawnLogprob(
  row: Float32Array,
  scan: RowScan,
  { token, temperature, kept }: { token: number; temperature: number; kept: DrawableTokens | null },
): number {
  let total = 0;
  if (kept === null || kept.isComplement) total = totalWithout(row, kept?.ids ?? NONE, 1 / temperature, scan);
  else for (const id of kept.ids) total += expNegative((row[id]! - scan.maximum) / temperature);
  const centre = centreOf(scan);
  const [logit, maximum] = [row[token]! - centre, scan.maximum - centre];
  // At temperature 1, exactly the operations of a plain log-probability, row[token] - log Σ exp.
  return Math.min(0, logit / temperature - (maximum / temperature + Math.log(total)));
}

/**
 * Largest logit that a logarithm is added to: at a temperature of 0.01 it loses 1e-8. Only penalties make larger
 * ones.
 */
const LARGEST_PLAIN = 1e6;

/**
 * Number subtracted before a logarithm is added: 0, or the maximum if the logarithm would be lost and equal
 * logits would each get probability 1.
 */
export function centreOf({ maximum }: RowScan): number {
  return Math.abs(maximum) > LARGEST_PLAIN ? maximum : 0;
}

const NONE = new Int32Array();

/** Σ exp((x - maximum) / T) without some tokens. */
function totalWithout(row: Float32Array, ids: Int32Array, inverseTemperature: number, scan: RowScan): number {
  const isMasked = ids.every((id) => row[id] === -Infinity);
  if (isMasked) {
    if (scan.inverseTemperature !== inverseTemperature) scanSums(scan, inverseTemperature);
    return scan.total;
  }
  const copy = scan.kernel.row;
  for (const id of ids) copy[id] = -Infinity;
  scanSums(scan, inverseTemperature);
  const { total } = scan;
  for (const id of ids) copy[id] = row[id]!;
  scan.inverseTemperature = NaN;
  return total;
}

import type { SamplingTrace, TokenDraw } from '@trainyard/protocol/fields';
import { TraceWriter } from '@trainyard/tokenizer';
import { drawnLogprob, type DrawableTokens, type RowScan } from '@trainyard/decoder';

/** Records which tokens could be drawn, and the probability of the drawn one. */
export class SamplingTracer {
  readonly #temperature: number;
  readonly #writer = new TraceWriter();
  readonly #keepsLast: boolean;
  /** Draw of the last token, if kept; null once the trace is too large. */
  last: TokenDraw | null = null;

  /** @param temperature above 0 @param keepsLast for callers that report each token's draw. Default false */
  constructor(temperature: number, keepsLast = false) {
    this.#temperature = temperature;
    this.#keepsLast = keepsLast;
  }

  /**
   * @param row logits of the draw, `[V]`: adjusted, -Infinity if masked
   * @param scan of the row
   * @param keptIds ids left by truncation, ascending; null = all
   */
  add(row: Float32Array, token: number, scan: RowScan, keptIds: Int32Array | null): void {
    this.last = null;
    if (this.#writer.isTooLarge) return;
    const isFew = keptIds !== null && 2 * keptIds.length <= row.length;
    const kept = isFew ? { isComplement: false, ids: keptIds } : keptOf(row, keptIds);
    const logprob = drawnLogprob(row, scan, { token, temperature: this.#temperature, kept });
    const draw: TokenDraw = { logprob, kept };
    this.#writer.add(draw);
    // Its ids are in a shared buffer.
    if (this.#keepsLast) this.last = { ...draw, kept: draw.kept && { ...draw.kept, ids: draw.kept.ids.slice() } };
  }

  /** Null if it grew too large. */
  finish(): SamplingTrace | null {
    return this.#writer.finish();
  }
}

/**
 * Smaller of the kept ids and their complement; null = all are kept.
 *
 * @param ids kept ids; null = the unmasked ones
 */
function keptOf(row: Float32Array, ids: Int32Array | null): DrawableTokens | null {
  let numKept = ids?.length ?? 0;
  if (ids === null) for (let id = 0; id < row.length; id++) if (row[id]! > -Infinity) numKept++;
  if (numKept === row.length) return null;
  const isKept = new Uint8Array(row.length);
  if (ids === null) for (let id = 0; id < row.length; id++) isKept[id] = Number(row[id]! > -Infinity);
  else for (const id of ids) isKept[id] = 1;
  const isComplement = 2 * numKept > row.length;
  const listed = new Int32Array(isComplement ? row.length - numKept : numKept);
  let at = 0;
  for (let id = 0; id < row.length; id++) if ((isKept[id] === 1) !== isComplement) listed[at++] = id;
  return { isComplement, ids: listed };
}

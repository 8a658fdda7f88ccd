import type { SamplingTrace, TokenDraw } from '@trainyard/protocol/fields';
import { TraceWriter } from '@trainyard/tokenizer';
import { drawnLogprob, type DrawableTokens, type RowScan } from '@trainyard/decoder';

/** Remembers of each token of a choice which tokens could be drawn, and how likely it was among them. */
export class SamplingTracer {
  readonly #temperature: number;
  readonly #writer = new TraceWriter();
  readonly #keepsLast: boolean;
  /** The draw of the token that was added last, where it is kept; null once there is too much of them. */
  last: TokenDraw | null = null;

  /**
   * @param temperature above 0
   * @param keepsLast for whoever tells each token's draw by itself. Default false
   */
  constructor(temperature: number, keepsLast = false) {
    this.#temperature = temperature;
    this.#keepsLast = keepsLast;
  }

  /**
   * @param row logits that were drawn by, `[V]`: adjusted, -Infinity where masked
   * @param scan of the row
   * @param keptIds what truncation left, ascending; null = it took nothing away
   */
  add(row: Float32Array, token: number, scan: RowScan, keptIds: Int32Array | null): void {
    this.last = null;
    if (this.#writer.isTooLarge) return;
    const isFew = keptIds !== null && 2 * keptIds.length <= row.length;
    const kept = isFew ? { isComplement: false, ids: keptIds } : keptOf(row, keptIds);
    const draw: TokenDraw = { logprob: drawnLogprob(row, token, this.#temperature, kept, scan), kept };
    this.#writer.add(draw);
    // Its ids lie in a buffer that others use next.
    if (this.#keepsLast) this.last = { ...draw, kept: draw.kept && { ...draw.kept, ids: draw.kept.ids.slice() } };
  }

  /** Null when it grew too large. */
  finish(): SamplingTrace | null {
    return this.#writer.finish();
  }
}

/** By the fewer of the ids that are kept and those that are not; null = all are. @param ids those that are kept; null = those not masked */
function keptOf(row: Float32Array, ids: Int32Array | null): DrawableTokens | null {
  let numKept = ids?.length ?? 0;
  if (ids === null) for (let id = 0; id < row.length; id++) if (row[id]! > -Infinity) numKept++;
  if (numKept === row.length) return null;
  const isKept = new Uint8Array(row.length);
  if (ids === null) for (let id = 0; id < row.length; id++) isKept[id] = Number(row[id]! > -Infinity);
  else for (const id of ids) isKept[id] = 1;
  const isComplement = 2 * numKept > row.length;
  const told = new Int32Array(isComplement ? row.length - numKept : numKept);
  let at = 0;
  for (let id = 0; id < row.length; id++) if ((isKept[id] === 1) !== isComplement) told[at++] = id;
  return { isComplement, ids: told };
}

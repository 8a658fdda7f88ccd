import { type ChoiceSampling, type KeptTokens, KeptTokensWriter, MAX_TRACE_BYTES } from '@trainyard/tokenizer';
import { expNegative } from './softmax.ts';

/** Remembers of each token of a choice which tokens could be drawn, and how likely it was among them. */
export class SamplingTracer {
  readonly #temperature: number;
  readonly #kept = new KeptTokensWriter();
  #logprobs: number[] = [];
  #isTooLarge = false;

  /** @param temperature above 0 */
  constructor(temperature: number) {
    this.#temperature = temperature;
  }

  /**
   * @param row logits that were drawn by, `[V]`: adjusted, -Infinity where masked
   * @param maximum of the row
   * @param drawn `keptIds`: ascending, what truncation left; or, where there is none, `total`: Σ exp((x - maximum) / temperature) of the row
   */
  add(row: Float32Array, token: number, maximum: number, drawn: DrawnFrom): void {
    if (this.#isTooLarge) return;
    const ids = 'keptIds' in drawn ? drawn.keptIds : null;
    let total = 0;
    if ('total' in drawn) total = drawn.total;
    else for (const id of drawn.keptIds) total += expNegative((row[id]! - maximum) / this.#temperature);
    this.#logprobs.push(Math.min(0, (row[token]! - maximum) / this.#temperature - Math.log(total)));
    this.#kept.add(ids !== null && 2 * ids.length <= row.length ? { isComplement: false, ids } : keptOf(row, ids));
    if (this.#kept.sizeBytes > MAX_TRACE_BYTES) {
      this.#isTooLarge = true;
      this.#logprobs = [];
    }
  }

  /** Null when it grew too large. */
  finish(): ChoiceSampling['trace'] {
    if (this.#isTooLarge) return null;
    return { logprobs: Float32Array.from(this.#logprobs), kept: this.#kept.bytes() };
  }
}

/** The set that a token was drawn from. */
export type DrawnFrom = { readonly keptIds: Int32Array } | { readonly total: number };

/** By the fewer of the ids that are kept and those that are not; null = all are. @param ids those that are kept; null = those not masked */
function keptOf(row: Float32Array, ids: Int32Array | null): KeptTokens | null {
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

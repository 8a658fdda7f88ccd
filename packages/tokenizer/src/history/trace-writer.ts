import { MAX_TRACE_BYTES, type SamplingTrace, type TokenDraw } from '@trainyard/protocol/fields';
import { KeptTokensWriter } from './kept-tokens.ts';

/** Collects the sampling records of a choice. */
export class TraceWriter {
  readonly #kept = new KeptTokensWriter();
  #logprobs: number[] = [];
  #isTooLarge = false;

  get isTooLarge(): boolean {
    return this.#isTooLarge;
  }

  add({ logprob, kept }: TokenDraw): void {
    if (this.#isTooLarge) return;
    this.#logprobs.push(logprob);
    this.#kept.add(kept);
    if (this.#kept.sizeBytes <= MAX_TRACE_BYTES) return;
    this.#isTooLarge = true;
    this.#logprobs = [];
  }

  /** Null if it grew too large. */
  finish(): SamplingTrace | null {
    if (this.#isTooLarge) return null;
    return { logprobs: Float32Array.from(this.#logprobs), kept: this.#kept.bytes() };
  }
}

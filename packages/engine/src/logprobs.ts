import type { EngineTokenizer } from './chat.ts';
import type { TokenLogprob, TopLogprob } from './generate-request.ts';
import { logprobOf, mostLikelyTokens } from './sampler.ts';
import type { SamplerBuffers } from './sampler.ts';

/** Writes the logprob entries of sampled tokens; remembers each token's bytes and text. */
export class LogprobWriter {
  readonly #tokenizer: EngineTokenizer;
  readonly #faces = new Map<number, { bytes: number[]; text: string }>();

  constructor(tokenizer: EngineTokenizer) {
    this.#tokenizer = tokenizer;
  }

  /**
   * @param row raw logits, `[V]`
   * @param logSum log Σ exp of the row
   * @param numTop entries of `top`: the sampled token, then the most likely others. 0 gives none.
   */
  entry(row: Float32Array, token: number, logSum: number, numTop: number, buffers: SamplerBuffers): TokenLogprob {
    const sampled = this.#describe(row, token, logSum);
    const top: TopLogprob[] = [];
    if (numTop > 0) {
      top.push({ ...sampled });
      for (const id of mostLikelyTokens(row, numTop, buffers)) {
        if (id !== token && top.length < numTop) top.push(this.#describe(row, id, logSum));
      }
    }
    return { ...sampled, top };
  }

  #describe(row: Float32Array, id: number, logSum: number): TopLogprob {
    let face = this.#faces.get(id);
    if (face === undefined) {
      face = { bytes: Array.from(this.#tokenizer.tokenBytes(id)), text: this.#tokenizer.tokenText(id) };
      this.#faces.set(id, face);
    }
    return { id, logprob: logprobOf(row[id]!, logSum), bytes: face.bytes, text: face.text };
  }
}

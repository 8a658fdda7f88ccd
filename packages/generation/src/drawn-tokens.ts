import type { ChoiceSampling, SamplingChanges, TokenDraw } from '@trainyard/protocol/fields';
import { TraceWriter } from '@trainyard/tokenizer';

/** The draws of one choice, as a back end told them. */
export class DrawnTokens {
  readonly #writer = new TraceWriter();
  #isCut = false;
  numTokens = 0;

  /** @param draw null: there is too much to tell, now and later */
  add(draw: TokenDraw | null): void {
    this.numTokens++;
    if (draw === null) this.#isCut = true;
    else this.#writer.add(draw);
  }

  sampling(settings: SamplingChanges): ChoiceSampling {
    const trace = this.#isCut ? null : this.#writer.finish();
    return { settings, trace, lost: trace === null ? 'too_large' : null };
  }
}

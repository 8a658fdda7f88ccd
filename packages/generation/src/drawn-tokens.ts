import { allows, type ChoiceConstraint, createTokenMask, type ReportedDraw } from '@trainyard/backend';
import type { ChoiceSampling, KeptTokens, LostTrace, SamplingChanges, TokenDraw } from '@trainyard/protocol/fields';
import { TraceWriter } from '@trainyard/tokenizer';

/** Draws of one choice, as reported by a back end. */
export class DrawnTokens {
  readonly #writer = new TraceWriter();
  readonly #vocabSize: number;
  /** Null: none, or it no longer matches the reply. */
  #constraint: ChoiceConstraint | null;
  #lost: LostTrace | null = null;
  numTokens = 0;

  /**
   * @param constraint of a choice whose back end enforces it; advanced here, stays the caller's. Default:
   *   none
   */
  constructor(vocabSize: number, constraint: ChoiceConstraint | null = null) {
    this.#vocabSize = vocabSize;
    this.#constraint = constraint;
  }

  add(draw: ReportedDraw, token: number): void {
    this.numTokens++;
    if (this.#lost !== null) return;
    const whole = typeof draw === 'string' ? draw : this.#completed(draw, token);
    if (typeof whole === 'string') this.#lost = whole;
    else this.#writer.add(whole);
    this.#follow(token);
  }

  sampling(settings: SamplingChanges): ChoiceSampling {
    const trace = this.#lost === null ? this.#writer.finish() : null;
    return { settings, trace, lost: trace === null ? (this.#lost ?? 'too_large') : null };
  }

  /**
   * Uses the mask of the constraint here for the server's, unless the server left tokens that this mask
   * removes.
   */
  #completed(draw: Exclude<ReportedDraw, string>, token: number): TokenDraw | 'undetermined' {
    const { possibleIds, logprob, kept: within } = draw;
    if (possibleIds === undefined) return draw;
    if (this.#constraint === null) return 'undetermined';
    const mask = createTokenMask(this.#vocabSize);
    try {
      if (this.#constraint.fillMask(mask) === 'any') return { logprob, kept: within };
    } catch {
      return 'undetermined';
    }
    const isLeft = (id: number): boolean => id < this.#vocabSize && allows(mask, id);
    if (![token, ...possibleIds].every(isLeft)) return 'undetermined';
    const listed = within && new Set(within.ids);
    const isWithin = (id: number): boolean => listed === null || listed.has(id) !== within!.isComplement;
    return { logprob, kept: keptTokens(this.#vocabSize, (id) => isLeft(id) && isWithin(id)) };
  }

  #follow(token: number): void {
    try {
      this.#constraint?.accept(token);
    } catch {
      this.#constraint = null;
    }
  }
}

/** Stores the ids that are kept or those that are not, if fewer. */
function keptTokens(vocabSize: number, isKept: (id: number) => boolean): KeptTokens {
  const ids: number[] = [];
  const others: number[] = [];
  for (let id = 0; id < vocabSize; id++) (isKept(id) ? ids : others).push(id);
  const isComplement = others.length < ids.length;
  return { isComplement, ids: Int32Array.from(isComplement ? others : ids) };
}

import { allows, type ChoiceConstraint, createTokenMask, type ReportedDraw } from '@trainyard/backend';
import type { ChoiceSampling, KeptTokens, LostTrace, SamplingChanges, TokenDraw } from '@trainyard/protocol/fields';
import { TraceWriter } from '@trainyard/tokenizer';

/** The draws of one choice, as a back end reported them. */
export class DrawnTokens {
  readonly #writer = new TraceWriter();
  readonly #vocabSize: number;
  /** Null: none, or it does not follow the reply any more. */
  #constraint: ChoiceConstraint | null;
  #lost: LostTrace | null = null;
  numTokens = 0;

  /** @param constraint of a choice whose back end enforces it by itself; it is advanced here and stays the caller's. Default: none */
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

  /** The mask of the constraint here stands for that of the server, unless the server left tokens that this one takes away. */
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

/** By the fewer of the ids that are kept and those that are not. */
function keptTokens(vocabSize: number, isKept: (id: number) => boolean): KeptTokens {
  const ids: number[] = [];
  const others: number[] = [];
  for (let id = 0; id < vocabSize; id++) (isKept(id) ? ids : others).push(id);
  const isComplement = others.length < ids.length;
  return { isComplement, ids: Int32Array.from(isComplement ? others : ids) };
}

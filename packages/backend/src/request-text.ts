import type { FinishReason } from './sample-event.ts';
import type { TokenMask } from './vocabulary/token-mask.ts';

/**
 * The hooks through which text takes part in the sampling of one request. The half of the engine that samples knows no text: without
 * this a reply is token ids, and ends by them alone.
 */
export interface RequestText {
  /** Whether some tokens are masked: replies are then not drawn from the model's distribution. */
  readonly isMasking: boolean;
  /** Whose masks they are, as a request calls it. Default `constraint`. */
  readonly maskingField?: string;
  /** All of the masking as the spec of a constraint on the whole reply, for a back end that enforces such by itself; null where it cannot be said so. */
  readonly wholeConstraint: { readonly kind: string } | null;
  /** For a choice that is about to run. */
  openChoice(): ChoiceText;
  /** The text of a whole reply, as {@link ChoiceText.push} gives it piece by piece, where nothing is searched for in it. */
  textOf(tokenIds: readonly number[]): string;
  /** The request is over, its choices are closed. */
  close(): void;
}

export interface ChoiceText {
  /** null = any text. */
  readonly constraint: ChoiceConstraint | null;
  /** The token that must come next; null = any. */
  readonly forcedId: number | null;
  /**
   * Goes on by a sampled token.
   * @param ending how the tokens by themselves end the choice here; null = they do not
   */
  push(token: number, ending: TokenEnding | null): StopVerdict;
  close(): void;
}

/** Holds one choice to its request's constraint. Its state is the reply's alone: cells that come and go do not matter to it. */
export interface ChoiceConstraint {
  /** True while the text behind which the constraint begins has not come. */
  readonly isWaiting: boolean;
  /**
   * Which tokens may come next.
   * @param mask `[ceil(V / 32)]`, holds anything; is left as it is where any token may come
   * @returns `complete` when only end tokens are left, which no other mask takes then
   * @throws {EngineError} engine.internal, engine.constraint_exhausted; engine.no_token_left where there are none it would allow
   */
  fillMask(mask: TokenMask): 'any' | 'masked' | 'complete';
  /** While waiting: false for a token that ends the wait and goes on with what the constraint cannot begin with. */
  admits(token: number): boolean;
  /** True for an end token under a constraint that has begun: it ends the choice whatever `ignoreEos` says. */
  endsWith(token: number): boolean;
  /** Goes on by a sampled token that ended nothing. @throws {EngineError} engine.internal when it was not allowed; engine.constraint_exhausted */
  accept(token: number): void;
}

/** The end of a choice. */
export interface Finish {
  reason: FinishReason;
  stopReason: string | number | null;
}

/** An end that needs no text to be seen. */
export interface TokenEnding extends Finish {
  /** By an end or stop token, which gives no text of its own unless asked; it comes before what text may say. */
  readonly isToken: boolean;
}

export interface StopVerdict {
  /** Text that is certain now; '' while a character is incomplete or a stop string may have begun. */
  text: string;
  finish: Finish | null;
}

import type { ActiveRequest } from './active-request.ts';
import type { IdLogprob } from './logprobs.ts';
import { Sequence } from './sequence.ts';

/** The likeliest tokens after a beam, in order. */
export type RankedTokens = readonly IdLogprob[];

/** How a beam came to its last token: what could have been taken there, and the way before. Beams share the ways they have in common. */
export interface BeamStep {
  readonly taken: IdLogprob;
  readonly ranked: RankedTokens;
  readonly before: BeamStep | null;
}

/** One line of a beam search. */
export class Beam extends Sequence {
  /** Sum of its tokens' raw logprobs. */
  score = 0;
  lastStep: BeamStep | null = null;
  /** What may come next; null until computed. */
  ranked: RankedTokens | null = null;

  constructor(owner: ActiveRequest, index: number, parent: Beam | null) {
    super(owner, index, parent === null ? owner.promptIds : [...parent.tokens]);
    if (parent === null) return;
    this.score = parent.score;
    this.lastStep = parent.lastStep;
  }

  /** Goes on by one of the ranked tokens. */
  extend(taken: IdLogprob, ranked: RankedTokens): void {
    this.append(taken.id);
    this.score += taken.logprob;
    this.lastStep = { taken, ranked, before: this.lastStep };
    this.ranked = null;
    this.isParked = false;
  }

  /** A search goes on with all its beams or not at all. */
  override get round(): number {
    return 0;
  }

  close(): void {}
}

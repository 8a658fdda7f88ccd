import type { ActiveRequest } from './active-request.ts';
import type { IdLogprob, LogprobWriter } from '../sampling/logprobs.ts';
import { Sequence } from '../batching/sequence.ts';

/** Most likely tokens after a beam, in order. */
type RankedTokens = readonly IdLogprob[];

/** Beams share common steps. */
interface BeamStep {
  readonly taken: IdLogprob;
  readonly ranked: RankedTokens;
  readonly before: BeamStep | null;
}

interface Hypothesis {
  /** Generated tokens, including the end token only if its text is wanted. */
  readonly tokenIds: readonly number[];
  readonly lastStep: BeamStep | null;
  /** Sum of logprobs divided by a power of the length. */
  readonly rating: number;
  readonly stopReason: number | null;
}

export interface BeamTurnover {
  readonly dropped: readonly Beam[];
  readonly added: readonly Beam[];
}

/**
 * Beam search as in vLLM: of the 2W most likely tokens of each live beam, the W best overall continue; an end
 * token completes its beam. It runs until maxTokens regardless of completed beams, and only the tokenizer's own
 * end token counts.
 *
 * The final order is by sum / length ^ lengthPenalty, where length counts prompt and reply without the end
 * token, so with long prompts the penalty has little effect. A beam that continues twice becomes a second
 * sequence with the same prefix, which the cache shares.
 *
 * @see vLLM, `OpenAIServing.beam_search`; about the length: vllm-project/vllm issue 2606
 */
export class BeamSearch {
  readonly #owner: ActiveRequest;
  readonly #width: number;
  readonly #lengthPenalty: number;
  #live: Beam[];
  /** The best so far, at most W: dropped ones cannot return. */
  #completed: Hypothesis[] = [];
  #numBeams = 1;

  constructor(owner: ActiveRequest) {
    this.#owner = owner;
    this.#width = owner.request.n;
    this.#lengthPenalty = owner.request.beamSearch!.lengthPenalty;
    this.#live = [new Beam(this, owner, 0, null)];
  }

  get liveBeams(): readonly Beam[] {
    return this.#live;
  }
  get numRanked(): number {
    return 2 * this.#width;
  }
  get isFinished(): boolean {
    return this.#live.length === 0 || this.#live[0]!.numSampled >= this.#owner.maxTokens;
  }

  /** The beam waits until all have their tokens, then they advance together. @param ranked only possible tokens */
  receive(beam: Beam, ranked: RankedTokens): BeamTurnover | null {
    beam.ranked = ranked;
    beam.isParked = true;
    return this.#live.every((other) => other.ranked !== null) ? this.#advance() : null;
  }

  #advance(): BeamTurnover {
    const { eosTokenId } = this.#owner.ends;
    const { ignoreEos, includeStopString } = this.#owner.request;
    const candidates: { beam: Beam; ranked: RankedTokens; place: number; score: number }[] = [];
    for (const beam of this.#live) {
      const ranked = beam.ranked!;
      for (const [place, taken] of ranked.entries()) {
        const score = beam.score + taken.logprob;
        if (taken.id !== eosTokenId || ignoreEos) {
          candidates.push({ beam, ranked, place, score });
          continue;
        }
        const tokenIds = beam.tokens.slice(beam.promptLength);
        this.#complete({
          tokenIds: includeStopString ? [...tokenIds, eosTokenId] : tokenIds,
          lastStep: { taken, ranked, before: beam.lastStep },
          rating: this.#rate(score, beam.tokens.length),
          stopReason: eosTokenId,
        });
      }
    }
    // The sort is stable: of equal scores the earlier beam's more likely token goes first.
    const best = candidates.sort((a, b) => b.score - a.score).slice(0, this.#width);
    return this.#replace(best);
  }

  /** A beam's first successor takes over its cells, further ones are new sequences. */
  #replace(successors: readonly { beam: Beam; ranked: RankedTokens; place: number }[]): BeamTurnover {
    const added: Beam[] = [];
    const heirs = new Map<Beam, { place: number; ranked: RankedTokens }>();
    const next = successors.map(({ beam, ranked, place }) => {
      if (!heirs.has(beam)) {
        heirs.set(beam, { place, ranked });
        return beam;
      }
      const twin = new Beam(this, this.#owner, this.#numBeams++, beam);
      twin.extend(ranked[place]!, ranked);
      added.push(twin);
      return twin;
    });
    const dropped = this.#live.filter((beam) => !heirs.has(beam));
    for (const [beam, { place, ranked }] of heirs) beam.extend(ranked[place]!, ranked);
    this.#live = next;
    return { dropped, added };
  }

  /** Reports the W best, best first, and counts their tokens. Live beams end by length. */
  report(writer: LogprobWriter): void {
    for (const beam of this.#live) {
      this.#complete({
        tokenIds: beam.tokens.slice(beam.promptLength),
        lastStep: beam.lastStep,
        // Under ignoreEos a beam can continue after an end token, and end in one.
        rating: this.#rate(
          beam.score,
          beam.tokens.length - (beam.tokens.at(-1) === this.#owner.ends.eosTokenId ? 1 : 0),
        ),
        stopReason: null,
      });
    }
    const { request, usage } = this.#owner;
    for (const [index, { tokenIds, lastStep, stopReason }] of this.#completed.entries()) {
      usage.completionTokens += tokenIds.length;
      this.#owner.send({
        kind: 'finished',
        index,
        text: this.#owner.text?.textOf(tokenIds) ?? '',
        tokenIds: [...tokenIds],
        // One entry per reported token; both may omit an end token.
        logprobs:
          request.logprobs === null ? null : logprobsOf(lastStep, request.logprobs, writer).slice(0, tokenIds.length),
        finishReason: stopReason === null ? 'length' : 'stop',
        stopReason,
      });
    }
  }

  #complete(hypothesis: Hypothesis): void {
    this.#completed.push(hypothesis);
    // Stable: of equal ratings the earlier one stays.
    this.#completed = this.#completed.sort((a, b) => b.rating - a.rating).slice(0, this.#width);
  }

  /** @param length prompt and reply without the end token */
  #rate(score: number, length: number): number {
    return score / length ** this.#lengthPenalty;
  }
}

/** One entry per step, also for an end token; rows have 2W tokens, which limits `top`. */
function logprobsOf(
  lastStep: BeamStep | null,
  numTop: number,
  writer: LogprobWriter,
): ReturnType<LogprobWriter['entry']>[] {
  const steps: BeamStep[] = [];
  for (let step = lastStep; step !== null; step = step.before) steps.push(step);
  return steps.reverse().map(({ taken, ranked }) => {
    const count = numTop === -1 ? ranked.length : Math.min(numTop, ranked.length);
    return writer.entryOf(taken, ranked, count);
  });
}

export class Beam extends Sequence {
  declare readonly owner: ActiveRequest;
  readonly search: BeamSearch;
  /** Sum of its tokens' raw logprobs. */
  score = 0;
  lastStep: BeamStep | null = null;
  /** Candidates for the next token; null until computed. */
  ranked: RankedTokens | null = null;

  constructor(search: BeamSearch, owner: ActiveRequest, index: number, parent: Beam | null) {
    super(owner, index, parent === null ? owner.promptIds : [...parent.tokens]);
    this.search = search;
    if (parent === null) return;
    this.score = parent.score;
    this.lastStep = parent.lastStep;
  }

  /** Advances by one of the ranked tokens. */
  extend(taken: IdLogprob, ranked: RankedTokens): void {
    this.append(taken.id);
    this.score += taken.logprob;
    this.lastStep = { taken, ranked, before: this.lastStep };
    this.ranked = null;
    this.isParked = false;
  }

  /** A search advances with all its beams or none. */
  override get round(): number {
    return 0;
  }

  close(): void {}
}

import {
  clampedBias,
  type EndTokens,
  type ReportedDraw,
  type SampledLogprob,
  type SampleParams,
  samplingChangesOf,
} from '@trainyard/backend';
import { distributionChanges, type KeptTokens, type SamplingChanges } from '@trainyard/protocol/fields';
import { type ListedTokens, readListedTokens } from './listed-tokens.ts';
import { RequestMask } from './request-mask.ts';
import { type ScoredToken, truncateListed, type UnlistedTokens } from './truncate-listed.ts';

export interface DrawContext {
  readonly ends: EndTokens;
  readonly vocabSize: number;
  /** Distribution of the server's log-probabilities. */
  readonly logprobsMode: 'raw' | 'processed';
  readonly maxLogprobs: number;
}

/** Longer lists cost more to read than the few larger sets are worth. */
const MAX_LISTED = 256;

/**
 * Number of log-probabilities per token that the server has to list for a {@link DrawReader}; null: as many
 * as the client requested.
 */
export function numListed(params: SampleParams, { maxLogprobs, vocabSize }: DrawContext): number | null {
  const changes = tracedChanges(params);
  if (changes === null || params.logprobTokenIds !== null) return null;
  const asked = params.logprobs === -1 ? vocabSize : (params.logprobs ?? 0);
  const isListing = params.constraint !== null || isTruncating(changes);
  return isListing ? Math.max(asked, Math.min(maxLogprobs, MAX_LISTED, vocabSize)) : asked;
}

/** Changes that a request makes to the distribution of its tokens; null if there are none to report. */
function tracedChanges(params: SampleParams): SamplingChanges | null {
  if (!params.tracesSampling || params.sampling.temperature === 0 || params.beamSearch !== null) return null;
  return samplingChangesOf({ ...params, adapter: null, requestId: '' }, params.constraint !== null);
}

const isTruncating = (changes: SamplingChanges): boolean => distributionChanges(changes).has('truncation');

/**
 * Reader of the draws of one choice, from the request and the tokens that the server lists.
 *
 * vLLM applies a constraint's mask first: raw log-probabilities are after it. Then follow allowed ids, early
 * ends, biases, penalties, the temperature, `min_p`, `top_k` and `top_p`; processed log-probabilities are
 * after all of them.
 */
export class DrawReader {
  readonly #params: SampleParams;
  readonly #context: DrawContext;
  readonly #mask: RequestMask;
  readonly #bias: ReadonlyMap<number, number>;
  readonly #counts = new Map<number, number>();
  readonly #isTruncating: boolean;
  #place = 0;

  private constructor(params: SampleParams, context: DrawContext, changes: SamplingChanges) {
    this.#params = params;
    this.#context = context;
    this.#mask = new RequestMask(params, context);
    this.#bias = new Map(clampedBias(params.sampling.logitBias));
    this.#isTruncating = isTruncating(changes);
  }

  /** Returns null if there is nothing to report. */
  static open(params: SampleParams, context: DrawContext): DrawReader | null {
    const changes = tracedChanges(params);
    return changes && new DrawReader(params, context, changes);
  }

  /** @param entries of the next token: the token itself, then the most likely others */
  read([sampled, ...others]: readonly [SampledLogprob, ...SampledLogprob[]]): ReportedDraw {
    const numAsked = numListed(this.#params, this.#context);
    const entries = numAsked === null ? [sampled] : [sampled, ...others];
    const listed = readListedTokens(entries, numAsked ?? 0, this.#context.vocabSize);
    const isProcessed = this.#context.logprobsMode === 'processed';
    const draw = isProcessed ? this.#processed(sampled, listed) : this.#raw(sampled, listed);
    this.#counts.set(sampled.id, (this.#counts.get(sampled.id) ?? 0) + 1);
    this.#place++;
    return draw;
  }

  #processed({ logprob }: SampledLogprob, { possible, isComplete }: ListedTokens): ReportedDraw {
    const { constraint } = this.#params;
    if (isComplete && (this.#isTruncating || constraint !== null)) return { logprob, kept: setOf(possible) };
    const kept = this.#mask.keptAt(this.#place);
    // The set is too long to list, but the token's probability is exact, which is enough for a ratio.
    if (constraint === null || this.#isTruncating) return { logprob, kept };
    return { logprob, kept, possibleIds: possible.map(({ id }) => id) };
  }

  #raw({ id, logprob }: SampledLogprob, listed: ListedTokens): ReportedDraw {
    const { constraint, sampling } = this.#params;
    const kept = this.#mask.keptAt(this.#place);
    const possible = listed.possible.filter((token) => this.#mask.keepsAt(this.#place, token.id));
    const isAllListed = listed.isComplete || (kept?.isComplement === false && kept.ids.length === possible.length);
    // A repetition penalty needs logits, which are not reported.
    const scored = sampling.repetitionPenalty === 1 ? possible.map((token) => this.#scoreOf(token)) : null;
    if (this.#isTruncating) {
      const unlisted = isAllListed ? NONE_UNLISTED : this.#unlisted(listed);
      const left = scored && truncateListed(scored, sampling, unlisted);
      return left === null || scored === null ? 'undetermined' : amongListed(id, left, scored);
    }
    if (isAllListed && scored !== null) return amongListed(id, scored, scored);
    const isAsDrawn = kept === null && !this.#isShifting && sampling.temperature === 1;
    const reported = isAsDrawn ? logprob : Number.NaN;
    if (isAllListed) return { logprob: reported, kept: setOf(possible) };
    return {
      logprob: reported,
      kept,
      ...(constraint === null ? {} : { possibleIds: possible.map((token) => token.id) }),
    };
  }

  get #isShifting(): boolean {
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = this.#params.sampling;
    return this.#bias.size > 0 || repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
  }

  #scoreOf({ id, logprob }: SampledLogprob): ScoredToken {
    return { id, score: (logprob + this.#shiftOf(id)) / this.#params.sampling.temperature };
  }

  #shiftOf(id: number): number {
    const { frequencyPenalty, presencePenalty } = this.#params.sampling;
    const count = this.#counts.get(id) ?? 0;
    return (this.#bias.get(id) ?? 0) - (count > 0 ? frequencyPenalty * count + presencePenalty : 0);
  }

  #unlisted({ possible, leastListed }: ListedTokens): UnlistedTokens {
    const { temperature } = this.#params.sampling;
    const listedIds = new Set(possible.map(({ id }) => id));
    const shifts = [...this.#bias.keys(), ...this.#counts.keys()]
      .filter((id) => !listedIds.has(id))
      .map((id) => this.#shiftOf(id));
    const maxScore = (leastListed + Math.max(0, ...shifts)) / temperature;
    if (shifts.some((shift) => shift !== 0) || this.#mask.keptAt(this.#place) !== null)
      return { maxScore, minMass: 0, maxMass: Infinity };
    const mass = Math.max(0, 1 - possible.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0));
    if (temperature === 1) return { maxScore, minMass: mass, maxMass: mass };
    // Below temperature 1, Σ p^(1/T) is largest if the whole mass is in tokens as likely as the last one
    // listed.
    const maxMass = temperature < 1 ? mass * Math.exp(leastListed * (1 / temperature - 1)) : Infinity;
    return { maxScore, minMass: 0, maxMass };
  }
}

const NONE_UNLISTED: UnlistedTokens = { maxScore: -Infinity, minMass: 0, maxMass: 0 };

/**
 * @param left after truncation; the token itself counts as one of them even if rounding puts it just outside
 */
function amongListed(id: number, left: readonly ScoredToken[], all: readonly ScoredToken[]): ReportedDraw {
  const own = all.find((token) => token.id === id);
  if (own === undefined) return 'undetermined';
  const kept = left.includes(own) ? left : [...left, own];
  const highest = Math.max(...kept.map(({ score }) => score));
  const total = kept.reduce((sum, { score }) => sum + Math.exp(score - highest), 0);
  return { logprob: Math.min(0, own.score - highest - Math.log(total)), kept: setOf(kept) };
}

function setOf(tokens: readonly { readonly id: number }[]): KeptTokens {
  return { isComplement: false, ids: Int32Array.from(tokens, ({ id }) => id).toSorted() };
}

import { findForeignToken, findUnfitParam, REQUEST_LIMITS } from '@trainyard/protocol/fields';
import { brokenRule, check, checkCount, isIntegerIn } from './check-field.ts';
import type { SampleRequest } from './sample-request.ts';
import type { SchedulingPolicy } from './scheduling-policy.ts';

/** Limits of requests known only to the sampler. */
export interface SamplerFacts {
  readonly vocabSize: number;
  readonly policy: SchedulingPolicy;
  readonly maxChoices: number;
}

/**
 * Checks everything that needs no prompt, in time proportional to the request: the limits of the table of
 * fields, because a count outside them would crash the sampler, and limits known only here. Contradicting
 * fields are refused when a request is read.
 * @throws {EngineError} engine.invalid_request naming the field, the limit and the value
 */
export function validateSampleRequest(request: SampleRequest, { vocabSize, policy, maxChoices }: SamplerFacts): void {
  const { sampling, beamSearch, n, maxTokens, logprobs, promptLogprobs, allowedTokenIds, priority } = request;
  const unfit = findUnfitParam(sampling, 'sampling') ?? findUnfitParam(request, 'tokens');
  if (unfit !== null) check(false, unfit.name, unfit.rule, unfit.value);
  if (beamSearch === null) {
    const here = `in [1, ${maxChoices}] here (send several requests, or raise --max-choices)`;
    check(n <= maxChoices, 'n', here, n);
    const onArrival = '0, because requests are served in order of arrival';
    check(policy === 'priority' || priority === 0, 'priority', onArrival, priority);
  } else {
    const { beamWidth } = REQUEST_LIMITS;
    check(n <= beamWidth, 'n', `at most ${beamWidth} for a beam search`, n);
    const { lengthPenalty } = beamSearch;
    check(Number.isFinite(lengthPenalty), 'beamSearch', 'with a finite lengthPenalty', lengthPenalty);
  }
  check(maxTokens === null || isIntegerIn(maxTokens, 1), 'maxTokens', 'an integer of at least 1', maxTokens);
  checkEntries('logprobs', logprobs, vocabSize);
  checkEntries('promptLogprobs', promptLogprobs, vocabSize);
  checkCount('logitBias', sampling.logitBias.length, vocabSize, 'entries');
  const biased = new Set(sampling.logitBias.map(([id]) => id));
  check(
    biased.size === sampling.logitBias.length,
    'logitBias',
    'of distinct ids',
    `${sampling.logitBias.length} entries of ${biased.size}`,
  );
  check(!sampling.logitBias.some(([, bias]) => Number.isNaN(bias)), 'logitBias', 'numbers', NaN);
  if (allowedTokenIds !== null) {
    check(allowedTokenIds.length > 0, 'allowedTokenIds', 'null or a list of at least 1 id', '[]');
    checkCount('allowedTokenIds', allowedTokenIds.length, vocabSize, 'ids');
  }
  const foreign = findForeignToken(request, vocabSize);
  if (foreign !== null) throw brokenRule(foreign.name, foreign.rule, foreign.id);
}

function checkEntries(param: string, count: number | null, vocabSize: number): void {
  check(count === null || isIntegerIn(count, -1, vocabSize), param, `null or an integer in [-1, ${vocabSize}]`, count);
}

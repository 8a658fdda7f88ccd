import { findUnfitParam, REQUEST_LIMITS } from '@trainyard/protocol/fields';
import { check, checkCount, isIntegerIn } from './check-field.ts';
import type { RepetitionDetection, SampleRequest } from './sample-request.ts';
import type { SchedulingPolicy } from './scheduling-policy.ts';

/**
 * Checks what needs no prompt, in time proportional to the request.
 * @throws {EngineError} engine.invalid_request naming the field, the limit and the value
 */
export function validateSampleRequest(
  request: SampleRequest,
  { vocabSize, policy, maxChoices }: { vocabSize: number; policy: SchedulingPolicy; maxChoices: number },
): void {
  const { sampling } = request;
  const isToken = (id: number): boolean => isIntegerIn(id, 0, vocabSize - 1);

  check(isIntegerIn(request.n, 1), 'n', 'an integer of at least 1', request.n);
  // A beam search has a limit of its own, below.
  check(
    request.n <= maxChoices || Boolean(request.beamSearch),
    'n',
    `in [1, ${maxChoices}] here (send several requests, or raise the setting maxChoices)`,
    request.n,
  );
  const unfit = findUnfitParam(sampling, 'sampling');
  if (unfit !== null) check(false, unfit.name, unfit.rule, unfit.value);
  check(
    request.n === 1 || sampling.temperature > 0 || Boolean(request.beamSearch),
    'n',
    '1 when temperature is 0',
    request.n,
  );
  checkCount('logitBias', sampling.logitBias.length, vocabSize, 'entries');
  for (const [id, bias] of sampling.logitBias) {
    check(isToken(id), 'logitBias', `keyed by token ids in [0, ${vocabSize})`, id);
    check(!Number.isNaN(bias), 'logitBias', 'numbers', bias);
  }
  check(
    request.maxTokens === null || isIntegerIn(request.maxTokens, 1),
    'maxTokens',
    'an integer of at least 1',
    request.maxTokens,
  );
  check(isIntegerIn(request.minTokens, 0), 'minTokens', 'an integer of at least 0', request.minTokens);
  check(
    request.maxTokens === null || request.minTokens <= request.maxTokens,
    'minTokens',
    `at most maxTokens (${request.maxTokens})`,
    request.minTokens,
  );
  checkCount('stopTokenIds', request.stopTokenIds.length, REQUEST_LIMITS.stopTokenIds, 'ids');
  for (const id of request.stopTokenIds) check(isToken(id), 'stopTokenIds', `in [0, ${vocabSize})`, id);
  check(
    request.logprobs === null || isIntegerIn(request.logprobs, -1, vocabSize),
    'logprobs',
    `null or an integer in [-1, ${vocabSize}]`,
    request.logprobs,
  );
  check(
    request.promptLogprobs === undefined ||
      request.promptLogprobs === null ||
      isIntegerIn(request.promptLogprobs, -1, vocabSize),
    'promptLogprobs',
    `null or an integer in [-1, ${vocabSize}]`,
    request.promptLogprobs,
  );
  const { logprobTokenIds: scoredIds = null } = request;
  if (scoredIds !== null) {
    check(request.logprobs !== null, 'logprobTokenIds', 'null without logprobs', 'a list');
    check(!request.beamSearch, 'logprobTokenIds', 'null for a beam search', 'a list');
    checkCount('logprobTokenIds', scoredIds.length, REQUEST_LIMITS.logprobTokenIds, 'ids');
    for (const id of scoredIds) check(isToken(id), 'logprobTokenIds', `in [0, ${vocabSize})`, id);
  }
  check(Number.isFinite(request.priority), 'priority', 'a finite number', request.priority);
  check(
    policy === 'priority' || request.priority === 0 || Boolean(request.beamSearch),
    'priority',
    '0, since requests are served in order of arrival',
    request.priority,
  );
  if (request.allowedTokenIds) {
    const { allowedTokenIds } = request;
    check(allowedTokenIds.length > 0, 'allowedTokenIds', 'null or a list of at least 1 id', '[]');
    checkCount('allowedTokenIds', allowedTokenIds.length, vocabSize, 'ids');
    for (const id of allowedTokenIds) check(isToken(id), 'allowedTokenIds', `in [0, ${vocabSize})`, id);
  }
  if (request.repetitionDetection) checkRepetition(request.repetitionDetection);
  if (request.beamSearch) {
    check(
      request.n <= REQUEST_LIMITS.beamWidth,
      'n',
      `at most ${REQUEST_LIMITS.beamWidth} for a beam search`,
      request.n,
    );
    const { lengthPenalty } = request.beamSearch;
    check(Number.isFinite(lengthPenalty), 'beamSearch', 'with a finite lengthPenalty', lengthPenalty);
  }
}

function checkRepetition(detection: RepetitionDetection): void {
  const { maxPatternSize, minPatternSize, minCount } = detection;
  for (const size of [maxPatternSize, minPatternSize])
    check(isIntegerIn(size, 0), 'repetitionDetection', 'made of sizes that are integers of at least 0', size);
  if (maxPatternSize === 0) return;
  check(
    minPatternSize <= maxPatternSize,
    'repetitionDetection',
    `with a minPatternSize of at most maxPatternSize (${maxPatternSize})`,
    minPatternSize,
  );
  check(isIntegerIn(minCount, 2), 'repetitionDetection', 'with a minCount that is an integer of at least 2', minCount);
}

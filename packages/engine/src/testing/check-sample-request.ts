import {
  checkPromptIds,
  EngineError,
  type SampleLimits,
  type SampleRequest,
  type SchedulingPolicy,
  validateSampleRequest,
} from '@trainyard/backend';

/** @throws {EngineError} engine.overloaded, engine.invalid_request, context_length_exceeded */
export function checkSampleRequest(
  request: SampleRequest,
  promptIds: readonly number[],
  engine: { readonly limits: SampleLimits; readonly vocabSize: number; readonly size: number },
  policy: SchedulingPolicy = 'priority',
): void {
  const { limits, vocabSize, size } = engine;
  if (size >= limits.maxRequests) {
    throw new EngineError(
      'engine.overloaded',
      `at most ${limits.maxRequests} requests may be in flight, got ${size}: retry later`,
    );
  }
  validateSampleRequest(request, { vocabSize, policy, maxChoices: limits.maxChoices });
  checkPromptIds(request, promptIds, vocabSize, limits.maxContextTokens);
}

import { naming, REQUEST_LIMITS } from '@trainyard/protocol/fields';
import { isIntegerIn, refusal } from './check-field.ts';
import { EngineError } from './errors.ts';
import type { SampleRequest } from './sample-request.ts';

/**
 * Checks a prompt against vocabulary and context.
 *
 * @param contextLimit maximum length of prompt and reply together
 * @throws {EngineError} engine.invalid_request (empty, an id outside the vocabulary, or a minimum reply
 *   longer than the rest of the context), context_length_exceeded (no space for one token)
 */
export function checkPromptIds(
  { promptLogprobs, beamSearch, minTokens }: Pick<SampleRequest, 'promptLogprobs' | 'beamSearch' | 'minTokens'>,
  ids: readonly number[],
  vocabSize: number,
  contextLimit: number,
): void {
  checkPromptLength(ids, contextLimit);
  const rest = contextLimit - ids.length;
  if (minTokens > rest) {
    const left = `${rest}, the rest of the context after a prompt of ${ids.length} tokens`;
    throw refusal('minTokens', naming`${{ field: 'minTokens' }} must be at most ${left}, got ${minTokens}`);
  }
  checkVocabulary(ids, vocabSize);
  if (promptLogprobs === null || beamSearch !== null) return;
  const entries = ids.length * (promptLogprobs === -1 ? vocabSize : promptLogprobs + 1);
  const limit = REQUEST_LIMITS.promptLogprobEntries;
  if (entries <= limit) return;
  throw refusal(
    'promptLogprobs',
    naming`${{ field: 'promptLogprobs' }} must give at most ${limit} entries in all, got ${entries} (${ids.length} prompt tokens): ask for fewer per token`,
  );
}

/** @throws {EngineError} engine.invalid_request for an empty prompt, context_length_exceeded */
export function checkPromptLength(ids: readonly number[], contextLimit: number): void {
  if (ids.length === 0) throw refusal('prompt', 'the prompt must have at least 1 token, got 0');
  if (ids.length < contextLimit) return;
  throw new EngineError(
    'context_length_exceeded',
    `your prompt contains ${ids.length} input tokens, which leaves no room for a reply: shorten it to at most ${contextLimit - 1}`,
    { param: 'prompt' },
  );
}

/**
 * @param param name of their parameter @throws {EngineError} engine.invalid_request for an id outside the
 *   vocabulary
 */
export function checkVocabulary(ids: readonly number[], vocabSize: number, param = 'prompt'): void {
  const outside = ids.find((id) => !isIntegerIn(id, 0, vocabSize - 1));
  if (outside !== undefined) throw refusal(param, `token ids must be in [0, ${vocabSize}), got ${outside}`);
}

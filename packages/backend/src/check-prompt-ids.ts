import { REQUEST_LIMITS } from '@trainyard/protocol/fields';
import { EngineError } from './errors.ts';
import type { SampleRequest } from './sample-request.ts';

/**
 * Checks a prompt against vocabulary and context.
 *
 * @param contextLimit longest sequence, prompt and reply together
 * @throws {EngineError} engine.invalid_request (empty, an id outside the vocabulary, or a reply that must be longer than there is room), context_length_exceeded (no room for even one token)
 */
export function checkPromptIds(
  { promptLogprobs, beamSearch, minTokens }: Pick<SampleRequest, 'promptLogprobs' | 'beamSearch' | 'minTokens'>,
  ids: readonly number[],
  vocabSize: number,
  contextLimit: number,
): void {
  if (ids.length === 0) {
    throw new EngineError('engine.invalid_request', 'the prompt must have at least 1 token, got 0', {
      param: 'prompt',
    });
  }
  if (ids.length >= contextLimit) {
    throw new EngineError(
      'context_length_exceeded',
      `your prompt contains ${ids.length} input tokens, which leaves no room for a reply: shorten it to at most ${contextLimit - 1}`,
      { param: 'prompt' },
    );
  }
  const room = contextLimit - ids.length;
  if (minTokens > room) {
    throw new EngineError(
      'engine.invalid_request',
      `minTokens must be at most ${room}, what a prompt of ${ids.length} tokens leaves of the context, got ${minTokens}`,
      { param: 'minTokens' },
    );
  }
  const outside = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (outside !== undefined) {
    throw new EngineError('engine.invalid_request', `token ids must be in [0, ${vocabSize}), got ${outside}`, {
      param: 'prompt',
    });
  }
  if (typeof promptLogprobs === 'number' && !beamSearch) {
    const entries = ids.length * (promptLogprobs === -1 ? vocabSize : promptLogprobs + 1);
    const limit = REQUEST_LIMITS.promptLogprobEntries;
    if (entries > limit) {
      throw new EngineError(
        'engine.invalid_request',
        `promptLogprobs must give at most ${limit} entries in all, got ${entries} (${ids.length} prompt tokens): ask for fewer a token`,
        { param: 'promptLogprobs' },
      );
    }
  }
}

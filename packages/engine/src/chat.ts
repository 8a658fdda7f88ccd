import { defaultTemplateVariables, TokenizerError } from '@trainyard/tokenizer';
import type { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { EngineError } from './errors.ts';
import type { GenerateRequest } from './generate-request.ts';

/** What the engine asks of a tokenizer. */
export type EngineTokenizer = Pick<
  Tokenizer,
  'vocabSize' | 'eosTokenId' | 'endTokenIds' | 'tokenBytes' | 'tokenText' | 'createDecoder'
>;
export type EngineTemplate = Pick<ChatTemplate, 'render' | 'source'>;

/**
 * Ids of a request's prompt; rendered through the chat template where it is a conversation.
 *
 * @param contextLimit longest sequence, prompt and reply together
 * @throws {EngineError} engine.template_failed, engine.invalid_request (empty, or an id outside the vocabulary),
 * engine.context_too_long (no room for even one token)
 */
export function promptTokenIds(
  request: GenerateRequest,
  tokenizer: EngineTokenizer,
  template: EngineTemplate | null,
  contextLimit: number,
): number[] {
  const { prompt } = request;
  const ids = prompt.kind === 'tokens' ? [...prompt.tokenIds] : renderChat(prompt, template);
  if (ids.length === 0) {
    throw new EngineError('engine.invalid_request', 'the prompt must have at least 1 token, got 0', {
      param: 'prompt',
    });
  }
  if (ids.length >= contextLimit) {
    throw new EngineError(
      'engine.context_too_long',
      `the context holds ${contextLimit} tokens and the prompt has ${ids.length}: shorten it to at most ${contextLimit - 1}`,
      { param: 'prompt' },
    );
  }
  const outside = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= tokenizer.vocabSize);
  if (outside !== undefined) {
    throw new EngineError(
      'engine.invalid_request',
      `token ids must be in [0, ${tokenizer.vocabSize}), got ${outside}`,
      {
        param: 'prompt',
      },
    );
  }
  return ids;
}

/** @throws {EngineError} engine.template_failed, engine.context_too_long */
export function renderChat(
  prompt: Extract<GenerateRequest['prompt'], { kind: 'chat' }>,
  template: EngineTemplate | null,
): number[] {
  if (template === null) {
    throw new EngineError('engine.template_failed', 'the model has no chat template: send token ids as the prompt', {
      param: 'messages',
    });
  }
  try {
    const { tokenIds } = template.render(prompt.messages, {
      tools: prompt.tools,
      templateVariables: prompt.rendersAsTraining
        ? { ...defaultTemplateVariables(template.source), ...prompt.templateVariables }
        : prompt.templateVariables,
      addGenerationPrompt: prompt.addGenerationPrompt ?? true,
    });
    return Array.from(tokenIds);
  } catch (cause) {
    const isTooLong = cause instanceof TokenizerError && cause.code === 'tokenizer.text_too_long';
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new EngineError(isTooLong ? 'engine.context_too_long' : 'engine.template_failed', message, {
      param: 'messages',
      cause,
    });
  }
}

/** @throws {EngineError} engine.invalid_request naming the field, the limit and the value */
export function validateRequest(request: GenerateRequest, vocabSize: number): void {
  const { sampling } = request;
  const inRange = (value: number, low: number, high: number): boolean => value >= low && value <= high; // NaN fails
  const check = (isValid: boolean, param: string, rule: string, value: unknown): void => {
    if (!isValid)
      throw new EngineError('engine.invalid_request', `${param} must be ${rule}, got ${String(value)}`, { param });
  };
  const isToken = (id: number): boolean => Number.isInteger(id) && inRange(id, 0, vocabSize - 1);

  check(Number.isInteger(request.n) && request.n >= 1, 'n', 'an integer of at least 1', request.n);
  check(
    Number.isFinite(sampling.temperature) && sampling.temperature >= 0,
    'temperature',
    'a finite number of at least 0',
    sampling.temperature,
  );
  check(request.n === 1 || sampling.temperature > 0, 'n', '1 when temperature is 0', request.n);
  check(sampling.topP > 0 && sampling.topP <= 1, 'topP', 'in (0, 1]', sampling.topP);
  check(
    Number.isInteger(sampling.topK) && sampling.topK >= 0,
    'topK',
    'an integer of at least 0 (0 = off)',
    sampling.topK,
  );
  check(inRange(sampling.minP, 0, 1), 'minP', 'in [0, 1]', sampling.minP);
  check(Number.isFinite(sampling.presencePenalty), 'presencePenalty', 'finite', sampling.presencePenalty);
  check(Number.isFinite(sampling.frequencyPenalty), 'frequencyPenalty', 'finite', sampling.frequencyPenalty);
  check(
    Number.isFinite(sampling.repetitionPenalty) && sampling.repetitionPenalty > 0,
    'repetitionPenalty',
    'finite and above 0',
    sampling.repetitionPenalty,
  );
  for (const [id, bias] of sampling.logitBias) {
    check(isToken(id), 'logitBias', `keyed by token ids in [0, ${vocabSize})`, id);
    check(!Number.isNaN(bias), 'logitBias', 'numbers', bias);
  }
  check(
    request.maxTokens === null || (Number.isInteger(request.maxTokens) && request.maxTokens >= 1),
    'maxTokens',
    'an integer of at least 1',
    request.maxTokens,
  );
  check(
    Number.isInteger(request.minTokens) && request.minTokens >= 0,
    'minTokens',
    'an integer of at least 0',
    request.minTokens,
  );
  check(
    request.maxTokens === null || request.minTokens <= request.maxTokens,
    'minTokens',
    `at most maxTokens (${request.maxTokens})`,
    request.minTokens,
  );
  for (const stop of request.stop) check(stop.length > 0, 'stop', 'without empty strings', '""');
  for (const id of request.stopTokenIds) check(isToken(id), 'stopTokenIds', `in [0, ${vocabSize})`, id);
  check(
    request.logprobs === null || (Number.isInteger(request.logprobs) && inRange(request.logprobs, 0, vocabSize)),
    'logprobs',
    `null or an integer in [0, ${vocabSize}]`,
    request.logprobs,
  );
  check(Number.isFinite(request.priority), 'priority', 'a finite number', request.priority);
}

import type { GenerateRequest } from '@trainyard/engine';
import type { CompletionRequest } from '@trainyard/protocol';

import type { InferenceBackend } from '../backends.ts';
import { BackendFailure } from '../http-faults.ts';
import { RequestError } from '../request-error.ts';
import { conflict } from './conflict.ts';
import {
  checkSharedFields,
  type RequestContext,
  type RequestedTokens,
  type StreamFormat,
  streamFormatOf,
  toGenerateRequest,
} from './sampling-request.ts';

/** The default of the OpenAI API. */
const DEFAULT_MAX_TOKENS = 16;

/** How the answer is written; what the engine does not need to know. */
export interface CompletionFormat {
  isEcho: boolean;
  /** `max_tokens: 0`: the prompt alone is answered. The engine samples one token all the same. */
  isPromptOnly: boolean;
  /** Null = none; k = the k most likely tokens beside the sampled one. */
  numTopLogprobs: number | null;
  hasTokensAsIds: boolean;
  hasTokenIds: boolean;
  numChoices: number;
  /** Null = one JSON answer. */
  stream: StreamFormat | null;
}

/** A prompt as the engine takes it, and as it is echoed. */
export interface CompletionPrompt {
  tokenIds: readonly number[];
  /** Null unless it is echoed. */
  text: string | null;
}

/**
 * The checks that need more than one field but no model.
 *
 * @param body passed the schema
 * @throws {RequestError} `request.invalid`, `request.unsupported`, `request.conflict`
 */
export function checkCompletionRequest(body: CompletionRequest): void {
  checkSharedFields(body, maxTokensOf(body));
  if (body.max_tokens === 0 && !body.echo)
    throw conflict('max_tokens', '`max_tokens` must be at least 1 without `echo`, got 0');
  if (body.suffix) throw unsupported('suffix', 'the model fills no gaps');
  if (body.prompt_embeds) throw unsupported('prompt_embeds', 'prompts are texts or token ids');
  if (body.best_of && body.best_of > (body.n ?? 1))
    throw unsupported('best_of', `every sample is answered: send \`n\`: ${body.best_of}`);
  if (body.echo && typeof body.logprobs === 'number')
    throw new RequestError('request.unsupported', '`logprobs` together with `echo` is not supported yet', {
      param: 'logprobs',
    });
}

function unsupported(field: string, reason: string): RequestError {
  return new RequestError('request.unsupported', `\`${field}\` is not supported: ${reason}`, { param: field });
}

export function completionFormatOf(body: CompletionRequest): CompletionFormat {
  return {
    isEcho: body.echo ?? false,
    isPromptOnly: body.max_tokens === 0,
    numTopLogprobs: body.logprobs ?? null,
    hasTokensAsIds: body.return_tokens_as_token_ids ?? false,
    hasTokenIds: body.return_token_ids ?? false,
    numChoices: body.n ?? 1,
    stream: streamFormatOf(body),
  };
}

/**
 * The prompts of a request as ids, in order.
 *
 * @throws {BackendFailure} `engine.context_too_long` and `engine.invalid_request` for a prompt that cannot run, before any of them does
 */
export async function readPrompts(
  body: CompletionRequest,
  inference: InferenceBackend,
  signal: AbortSignal,
): Promise<CompletionPrompt[]> {
  const { contextLength, vocabSize } = inference.baseModel;
  const read = async (prompt: string | number[]): Promise<CompletionPrompt> => {
    if (typeof prompt === 'string') {
      const input = { kind: 'text', text: prompt, addSpecialTokens: body.add_special_tokens ?? true } as const;
      const { tokenIds } = await inference.tokenize(input, { withTexts: false, signal });
      checkPromptIds(tokenIds, contextLength, vocabSize);
      return { tokenIds, text: body.echo ? prompt : null };
    }
    checkPromptIds(prompt, contextLength, vocabSize);
    return { tokenIds: prompt, text: body.echo ? await inference.detokenize(prompt, { signal }) : null };
  };
  return Promise.all(promptsOf(body).map(read));
}

/** One engine request for each prompt. @throws {RequestError} `request.conflict` */
export function toCompletionRequests(
  body: CompletionRequest,
  prompts: readonly CompletionPrompt[],
  context: RequestContext,
): GenerateRequest[] {
  const maxTokens = maxTokensOf(body);
  // One more than asked for: the sampled token takes a place only where it is not among the most likely.
  const logprobs = typeof body.logprobs === 'number' ? Math.min(body.logprobs + 1, context.vocabSize) : null;
  return prompts.map(({ tokenIds }) =>
    toGenerateRequest(body, context, {
      prompt: { kind: 'tokens', tokenIds },
      maxTokens: maxTokens.value === 0 ? { ...maxTokens, value: 1 } : maxTokens,
      logprobs,
    }),
  );
}

function promptsOf({ prompt }: CompletionRequest): (string | number[])[] {
  if (typeof prompt === 'string') return [prompt];
  return isIdList(prompt) ? [prompt] : prompt;
}

function isIdList(prompt: string[] | number[] | number[][]): prompt is number[] {
  return typeof prompt[0] === 'number';
}

function maxTokensOf(body: CompletionRequest): RequestedTokens {
  return { field: 'max_tokens', value: body.max_tokens ?? DEFAULT_MAX_TOKENS };
}

/** What the engine would refuse too, but only when it comes to this prompt. */
function checkPromptIds(ids: readonly number[], contextLength: number, vocabSize: number): void {
  if (ids.length === 0)
    throw new BackendFailure('engine.invalid_request', 'the prompt must have at least 1 token, got 0', 'prompt');
  if (ids.length >= contextLength) {
    throw new BackendFailure(
      'engine.context_too_long',
      `the context holds ${contextLength} tokens and the prompt has ${ids.length}: shorten it to at most ${contextLength - 1}`,
      'prompt',
    );
  }
  const outside = ids.find((id) => id >= vocabSize);
  if (outside !== undefined) {
    const message = `token ids must be in [0, ${vocabSize}), got ${outside}`;
    throw new BackendFailure('engine.invalid_request', message, 'prompt');
  }
}

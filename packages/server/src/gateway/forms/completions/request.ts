import { type CompletionRequest, quoting, REQUEST_LIMITS } from '@trainyard/protocol';

import type { CompletionPrompt } from './prompts.ts';
import type { InferenceRequest } from '../../../seams/contract/backends.ts';
import { conflict, named, unsupported } from '../shared/conflict.ts';
import { countedEntries } from '../shared/logprob-limit.ts';
import {
  checkSharedFields,
  isRecordable,
  type RequestContext,
  type RequestedTokens,
  type StreamFormat,
  streamFormatOf,
  toGenerateRequest,
} from '../shared/sampling-request.ts';

/** Default of the OpenAI API. */
const DEFAULT_MAX_TOKENS = 16;

/** Format of the answer; the engine does not need it. */
export interface CompletionFormat {
  /** The text of each choice starts with its prompt. */
  hasEcho: boolean;
  /** `max_tokens: 0`: the answer is only the prompt. The engine still samples one token. */
  isPromptOnly: boolean;
  /** Null = none; k = the k most likely tokens in addition to the sampled one. */
  numTopLogprobs: number | null;
  /** Shows the tokens that the request named instead. */
  hasScoredIds: boolean;
  /** Logprobs start with those of the prompt. */
  hasEchoLogprobs: boolean;
  /**
   * Entries of `prompt_logprobs` in addition to the prompt's own token; null = none, -1 = the whole
   * vocabulary.
   */
  numPromptLogprobs: number | null;
  hasTokensAsIds: boolean;
  hasTokenIds: boolean;
  hasPromptText: boolean;
  /** True if the samples are recorded, with an id in each choice. */
  isRecorded: boolean;
  numChoices: number;
  /** Minimum tokens of a choice per stream chunk, at least 1. */
  streamInterval: number;
  /** Null = one JSON answer. */
  stream: StreamFormat | null;
}

/**
 * Checks that need several fields but no model.
 * @param body passed the schema
 * @throws {RequestError} `request.invalid`, `request.unsupported`, `request.conflict`
 */
export function checkCompletionRequest(body: CompletionRequest): void {
  checkSharedFields(body, requestedTokens(body));
  if (body.max_tokens === 0 && !body.echo)
    throw conflict(
      named('max_tokens'),
      quoting`${named('max_tokens')} must be at least 1 without ${named('echo')}, got 0`,
    );
  if (body.suffix) throw unsupported(named('suffix'), 'infilling is not supported');
  if (body.prompt_embeds) throw unsupported(named('prompt_embeds'), 'a prompt must be text or token ids');
  if (body.best_of && body.best_of > (body.n ?? 1))
    throw unsupported(named('best_of'), quoting`every sample is answered: send ${named('n')}: ${body.best_of}`);
  if (!body.use_beam_search) return;
  if (body.stream)
    throw conflict(
      named('stream'),
      quoting`${named('stream')} is not allowed with ${named('use_beam_search')}, which returns all results at the end`,
    );
  if (body.echo && typeof body.logprobs === 'number')
    throw conflict(
      named('logprobs'),
      quoting`${named('logprobs')} together with ${named('echo')} is not allowed with ${named('use_beam_search')}`,
    );
}

/** @param keepsRecords true if samples of this model are recorded */
export function completionFormatOf(body: CompletionRequest, keepsRecords: boolean): CompletionFormat {
  const isEcho = body.echo ?? false;
  const numTopLogprobs = body.logprobs ?? null;
  const hasTokenIds = body.return_token_ids ?? false;
  return {
    // Ids already include the prompt.
    hasEcho: isEcho && !hasTokenIds,
    isPromptOnly: body.max_tokens === 0,
    numTopLogprobs,
    hasScoredIds: (body.logprob_token_ids ?? []).length > 0,
    hasEchoLogprobs: isEcho && numTopLogprobs !== null,
    // In vLLM an echo with logprobs requests the prompt's in this form, too. A stream never shows them.
    numPromptLogprobs: body.stream ? null : (body.prompt_logprobs ?? (isEcho ? numTopLogprobs : null)),
    hasTokensAsIds: body.return_tokens_as_token_ids ?? false,
    hasTokenIds,
    hasPromptText: body.return_prompt_text ?? false,
    isRecorded: keepsRecords && body.max_tokens !== 0 && isRecordable(body),
    numChoices: body.n ?? 1,
    streamInterval: body.stream_interval ?? 1,
    stream: streamFormatOf(body),
  };
}

/** Number of tokens requested from the engine: at least one. */
export function maxTokensOf(body: CompletionRequest): number {
  return Math.max(1, requestedTokens(body).value);
}

/** One engine request for each prompt. @throws {RequestError} `request.conflict` */
export function toCompletionRequests(
  body: CompletionRequest,
  prompts: readonly CompletionPrompt[],
  context: RequestContext,
  format: CompletionFormat,
): InferenceRequest[] {
  // One more than requested: the sampled token is added only if it is not among the most likely.
  const numTop = typeof body.logprobs === 'number' ? countedEntries('logprobs', body.logprobs, context) : null;
  const unasked = format.isRecorded ? 0 : null;
  const logprobs = numTop === null ? unasked : Math.min(numTop + 1, context.vocabSize);
  const promptLogprobs = countPromptLogprobs(body, prompts, context, format);
  checkRepeatedPrompts(prompts, format);
  return prompts.map(({ tokenIds }) => ({
    ...toGenerateRequest(body, context, {
      form: 'completion',
      prompt: { kind: 'tokens', tokenIds },
      maxTokens: { field: 'max_tokens', value: maxTokensOf(body) },
      logprobs,
      logprobsField: 'logprobs',
      numPrompts: prompts.length,
    }),
    truncatePromptTokens: null,
    tracesSampling: format.isRecorded,
    promptLogprobs,
    promptLogprobsFirst: true,
  }));
}

/** Limits repetition: each choice contains its prompt, so many choices of a long one would exceed an answer. */
function checkRepeatedPrompts(
  prompts: readonly CompletionPrompt[],
  { hasEcho, hasTokenIds, hasPromptText, numChoices }: CompletionFormat,
): void {
  if (!hasEcho && !hasTokenIds && !hasPromptText) return;
  const numTokens = prompts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0) * numChoices;
  const { repeatedPromptTokens } = REQUEST_LIMITS;
  if (numTokens <= repeatedPromptTokens) return;
  throw conflict(
    named('n'),
    quoting`${named('n')} with ${named('echo')}, ${named('return_token_ids')} or ${named('return_prompt_text')} must give at most ${repeatedPromptTokens} tokens of prompts over all choices, got ${numTokens}`,
  );
}

/** The larger number of the two forms; null = none. */
function countPromptLogprobs(
  body: CompletionRequest,
  prompts: readonly CompletionPrompt[],
  context: RequestContext,
  { numPromptLogprobs, numTopLogprobs, hasEchoLogprobs, numChoices }: CompletionFormat,
): number | null {
  const numEchoed = hasEchoLogprobs ? numTopLogprobs : null;
  if (numPromptLogprobs === null && numEchoed === null) return null;
  const field = body.prompt_logprobs ? 'prompt_logprobs' : 'logprobs';
  const count = Math.max(countedEntries(field, numPromptLogprobs ?? 0, context), numEchoed ?? 0);
  const numTokens = prompts.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  const numEntries = numTokens * (count + 1) * numChoices;
  const { promptLogprobEntries } = REQUEST_LIMITS;
  if (numEntries <= promptLogprobEntries) return count;
  throw conflict(
    named(field),
    quoting`${named(field)} must give at most ${promptLogprobEntries} entries of prompts over all choices, got ${numEntries}: ask for fewer per token`,
  );
}

function requestedTokens(body: CompletionRequest): RequestedTokens {
  return { field: 'max_tokens', value: body.max_tokens ?? DEFAULT_MAX_TOKENS };
}

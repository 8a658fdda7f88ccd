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

/** The default of the OpenAI API. */
const DEFAULT_MAX_TOKENS = 16;

/** How the answer is written; what the engine does not need to know. */
export interface CompletionFormat {
  /** The text of each choice begins with that of its prompt. */
  hasEcho: boolean;
  /** `max_tokens: 0`: the prompt alone is answered. The engine samples one token all the same. */
  isPromptOnly: boolean;
  /** Null = none; k = the k most likely tokens beside the sampled one. */
  numTopLogprobs: number | null;
  /** In place of those the ones that the request named. */
  hasScoredIds: boolean;
  /** Logprobs begin with those of the prompt. */
  hasEchoLogprobs: boolean;
  /** Entries of `prompt_logprobs` beside the prompt's own token; null = none, -1 = all of the vocabulary. */
  numPromptLogprobs: number | null;
  hasTokensAsIds: boolean;
  hasTokenIds: boolean;
  hasPromptText: boolean;
  /** Whether the samples are kept under an id, which each choice carries. */
  isRecorded: boolean;
  numChoices: number;
  /** Tokens of a choice that a chunk of a stream waits for, at least 1. */
  streamInterval: number;
  /** Null = one JSON answer. */
  stream: StreamFormat | null;
}

/**
 * The checks that need more than one field but no model.
 *
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

/** @param keepsRecords whether samples of this model are kept */
export function completionFormatOf(body: CompletionRequest, keepsRecords: boolean): CompletionFormat {
  const isEcho = body.echo ?? false;
  const numTopLogprobs = body.logprobs ?? null;
  const hasTokenIds = body.return_token_ids ?? false;
  return {
    // Who gets the ids has the prompt in them.
    hasEcho: isEcho && !hasTokenIds,
    isPromptOnly: body.max_tokens === 0,
    numTopLogprobs,
    hasScoredIds: (body.logprob_token_ids ?? []).length > 0,
    hasEchoLogprobs: isEcho && numTopLogprobs !== null,
    // vLLM takes an echo with logprobs for a wish to see the prompt's in this form, too. A stream never shows them.
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

/** The number of tokens that the engine is asked for: at least one. */
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
  // One more than asked for: the sampled token takes a place only where it is not among the most likely.
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

/** Each choice tells its prompt again: many choices of a long one would be more than an answer can hold. */
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

/** As many as the larger of the two forms needs; null = none. */
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

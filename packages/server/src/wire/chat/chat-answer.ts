import type { FinishReason, TokenLogprob } from '@trainyard/backend';
import type { Usage } from '@trainyard/generation';
import type { ChatCompletion, ChatCompletionChoice, CompletionUsage } from '@trainyard/protocol';

import type { ResolvedModel } from '../../contract/model-names.ts';
import type { CompletedEvent, OpenedGeneration, ParsedReply } from '../../streams/chat-events.ts';
import { hidesTokens, toFinishReason, toMessage } from './chat-reply.ts';
import type { AnswerFormat } from './chat-request.ts';
import { policySpans } from './policy-spans.ts';
import { type OrderedPromptLogprobs, toChoiceLogprobs, toPromptLogprobs } from '../logprobs.ts';

/** Fields shared by all chunks of one answer. */
export interface AnswerIdentity {
  id: string;
  /** Unix seconds. */
  created: number;
  /** The resolved name. */
  model: string;
  fingerprint: string;
}

/** Names the exact weights: eight hex digits of the adapter's digest, or `base`. */
export function fingerprintOf(model: ResolvedModel): string {
  const digest = model.kind === 'base' ? null : model.digest;
  return `trainyard-${digest?.slice(0, 8) ?? 'base'}`;
}

/** A `ChatCompletion` whose order of keys survives `toOrderedJson`. */
type ChatAnswer = Omit<ChatCompletion, 'prompt_logprobs'> & { prompt_logprobs: OrderedPromptLogprobs | null };

/** One choice as the engine gave it. */
export interface CollectedChoice {
  text: string[];
  /** Null when the reply was not read into parts. */
  parsed: ParsedReply | null;
  tokenIds: number[];
  logprobs: TokenLogprob[];
  finishReason: FinishReason;
  stopReason: string | number | null;
  /** Where what was sampled is kept; null = nowhere. */
  recordId: string | null;
}

/** Reads a generation to its end: the choices in order of index. */
export async function collectChoices(
  generation: OpenedGeneration,
  numChoices: number,
): Promise<{ choices: CollectedChoice[]; usage: Usage; promptLogprobs: CompletedEvent['promptLogprobs'] }> {
  const choices = Array.from({ length: numChoices }, (): CollectedChoice => ({
    text: [],
    parsed: null,
    tokenIds: [],
    logprobs: [],
    finishReason: 'abort',
    stopReason: null,
    recordId: null,
  }));
  for await (const event of generation.events) {
    if (event.kind === 'completed') return { choices, usage: event.usage, promptLogprobs: event.promptLogprobs };
    const choice = choices[event.index];
    if (choice === undefined) throw new Error(`the engine answered for choice ${event.index} of ${numChoices}`);
    choice.text.push(event.text);
    for (const id of event.tokenIds) choice.tokenIds.push(id);
    for (const logprob of event.logprobs ?? []) choice.logprobs.push(logprob);
    if (event.kind === 'finished') {
      choice.finishReason = event.finishReason;
      choice.stopReason = event.stopReason;
      choice.parsed = event.parsed ?? null;
      choice.recordId = event.recordId ?? null;
    }
  }
  throw new Error('a generation ended without its last event');
}

/** Reads a generation to its end and returns the one answer. */
export async function collectAnswer(
  generation: OpenedGeneration,
  identity: AnswerIdentity,
  format: AnswerFormat,
  numChoices: number,
): Promise<ChatAnswer> {
  const { choices, usage, promptLogprobs } = await collectChoices(generation, numChoices);
  return {
    id: identity.id,
    object: 'chat.completion',
    created: identity.created,
    model: identity.model,
    choices: choices.map((choice, index) => toChoice(choice, index, format, identity)),
    service_tier: null,
    system_fingerprint: identity.fingerprint,
    usage: toUsage(usage),
    prompt_logprobs: promptLogprobs ? toPromptLogprobs(promptLogprobs) : null,
    prompt_token_ids: format.hasPromptTokenIds ? generation.started.promptTokenIds : null,
    prompt_text: generation.promptText,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  };
}

function toChoice(
  choice: CollectedChoice,
  index: number,
  format: AnswerFormat,
  identity: AnswerIdentity,
): ChatCompletionChoice {
  const isHidden = hidesTokens(format, choice.parsed !== null);
  return {
    index,
    message: toMessage(choice, format),
    logprobs: toChoiceLogprobs(format.hasLogprobs && !isHidden ? choice.logprobs : null, format.hasTokensAsIds),
    finish_reason: toFinishReason(choice, format),
    stop_reason: choice.stopReason,
    token_ids: format.hasTokenIds && !isHidden ? choice.tokenIds : null,
    routed_experts: null,
    ...(choice.recordId === null ? {} : { record_id: choice.recordId }),
    ...(isHidden ? {} : policySpans(format, identity, choice.tokenIds.length)),
  };
}

export function toUsage(usage: Usage): CompletionUsage {
  return {
    prompt_tokens: usage.promptTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    completion_tokens: usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens },
    completion_tokens_details: usage.reasoningTokens === undefined ? null : { reasoning_tokens: usage.reasoningTokens },
  };
}

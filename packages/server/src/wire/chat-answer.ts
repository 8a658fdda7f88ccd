import type { FinishReason, TokenLogprob, Usage } from '@trainyard/engine';
import type { ChatCompletion, ChatCompletionChoice, CompletionUsage } from '@trainyard/protocol';

import type { ResolvedModel } from '../model-names.ts';
import type { OpenedGeneration } from './chat-events.ts';
import type { AnswerFormat } from './chat-request.ts';
import { toChoiceLogprobs } from './logprobs.ts';

/** What all chunks of one answer share. */
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
  const digest = model.kind === 'checkpoint' ? model.digest : null;
  return `trainyard-${digest?.slice(0, 8) ?? 'base'}`;
}

/** One choice as the engine gave it. */
export interface CollectedChoice {
  text: string[];
  tokenIds: number[];
  logprobs: TokenLogprob[];
  finishReason: FinishReason;
  stopReason: string | number | null;
}

/** Reads a generation to its end: the choices in order of index. */
export async function collectChoices(
  generation: OpenedGeneration,
  numChoices: number,
): Promise<{ choices: CollectedChoice[]; usage: Usage }> {
  const choices = Array.from({ length: numChoices }, (): CollectedChoice => ({
    text: [],
    tokenIds: [],
    logprobs: [],
    finishReason: 'abort',
    stopReason: null,
  }));
  for await (const event of generation.events) {
    if (event.kind === 'completed') return { choices, usage: event.usage };
    const choice = choices[event.index];
    if (choice === undefined) throw new Error(`the engine answered for choice ${event.index} of ${numChoices}`);
    choice.text.push(event.text);
    for (const id of event.tokenIds) choice.tokenIds.push(id);
    for (const logprob of event.logprobs ?? []) choice.logprobs.push(logprob);
    if (event.kind === 'finished') {
      choice.finishReason = event.finishReason;
      choice.stopReason = event.stopReason;
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
): Promise<ChatCompletion> {
  const { choices, usage } = await collectChoices(generation, numChoices);
  return toCompletion(generation, choices, usage, identity, format);
}

function toCompletion(
  generation: OpenedGeneration,
  choices: readonly CollectedChoice[],
  usage: Usage,
  identity: AnswerIdentity,
  format: AnswerFormat,
): ChatCompletion {
  return {
    id: identity.id,
    object: 'chat.completion',
    created: identity.created,
    model: identity.model,
    choices: choices.map((choice, index) => toChoice(choice, index, format)),
    service_tier: null,
    system_fingerprint: identity.fingerprint,
    usage: toUsage(usage),
    prompt_logprobs: null,
    prompt_token_ids: format.hasPromptTokenIds ? generation.started.promptTokenIds : null,
    prompt_text: null,
    kv_transfer_params: null,
    ec_transfer_params: null,
    metrics: null,
  };
}

function toChoice(choice: CollectedChoice, index: number, format: AnswerFormat): ChatCompletionChoice {
  return {
    index,
    message: {
      role: 'assistant',
      content: choice.text.join(''),
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      reasoning: null,
    },
    logprobs: toChoiceLogprobs(format.hasLogprobs ? choice.logprobs : null, format.hasTokensAsIds),
    finish_reason: choice.finishReason,
    stop_reason: choice.stopReason,
    token_ids: format.hasTokenIds ? choice.tokenIds : null,
    routed_experts: null,
  };
}

export function toUsage(usage: Usage): CompletionUsage {
  return {
    prompt_tokens: usage.promptTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    completion_tokens: usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens },
    completion_tokens_details: null,
  };
}

import type { ChatCompletion, ChatCompletionChoice } from '@trainyard/protocol';

import type { OpenedGeneration } from '../../../seams/streams/chat-events.ts';
import { type AnswerIdentity, collectChoices, type CollectedChoice, toUsage } from '../shared/collected-choices.ts';
import { hidesTokens, toFinishReason, toMessage } from './reply.ts';
import type { AnswerFormat } from './request.ts';
import { policySpans } from './policy-spans.ts';
import { type OrderedPromptLogprobs, toChoiceLogprobs, toPromptLogprobs } from '../shared/logprobs.ts';

/** A `ChatCompletion` that keeps its order of keys in `toOrderedJson`. */
type ChatAnswer = Omit<ChatCompletion, 'prompt_logprobs'> & { prompt_logprobs: OrderedPromptLogprobs | null };

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

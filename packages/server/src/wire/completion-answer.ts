import type { Usage } from '@trainyard/engine';
import type { Completion, CompletionChoice } from '@trainyard/protocol';

import { type AnswerIdentity, type CollectedChoice, collectChoices, toUsage } from './chat-answer.ts';
import type { OpenedGeneration } from './chat-events.ts';
import { CompletionLogprobWriter } from './completion-logprobs.ts';
import type { CompletionFormat, CompletionPrompt } from './completion-request.ts';

/** Reads the generations of all prompts to their ends and returns the one answer. */
export async function collectCompletion(
  generations: readonly Promise<OpenedGeneration>[],
  prompts: readonly CompletionPrompt[],
  identity: AnswerIdentity,
  format: CompletionFormat,
): Promise<Completion> {
  const collected = await Promise.all(
    generations.map(async (generation) => collectChoices(await generation, format.numChoices)),
  );
  const choices = collected.flatMap(({ choices: ofPrompt }, promptIndex) =>
    ofPrompt.map((choice, index) =>
      toChoice(choice, promptIndex * format.numChoices + index, prompts[promptIndex], format),
    ),
  );
  return {
    id: identity.id,
    object: 'text_completion',
    created: identity.created,
    model: identity.model,
    choices,
    service_tier: null,
    system_fingerprint: identity.fingerprint,
    usage: toUsage(sumUsage(collected.map(({ usage }) => usage))),
    kv_transfer_params: null,
  };
}

function toChoice(
  choice: CollectedChoice,
  index: number,
  prompt: CompletionPrompt | undefined,
  format: CompletionFormat,
): CompletionChoice {
  const textBefore = prompt?.text ?? '';
  const { numTopLogprobs: numTop, hasTokensAsIds, isPromptOnly } = format;
  return {
    index,
    text: textBefore + (isPromptOnly ? '' : choice.text.join('')),
    logprobs:
      numTop === null
        ? null
        : new CompletionLogprobWriter({ numTop, hasTokensAsIds, textBefore }).write(choice.logprobs),
    finish_reason: isPromptOnly ? 'length' : choice.finishReason,
    stop_reason: isPromptOnly ? null : choice.stopReason,
    token_ids: format.hasTokenIds ? (isPromptOnly ? [] : choice.tokenIds) : null,
    prompt_logprobs: null,
    prompt_token_ids: format.hasTokenIds ? [...(prompt?.tokenIds ?? [])] : null,
  };
}

export function sumUsage(usages: readonly Usage[]): Usage {
  const total = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
  for (const usage of usages) {
    total.promptTokens += usage.promptTokens;
    total.completionTokens += usage.completionTokens;
    total.cachedTokens += usage.cachedTokens;
  }
  return total;
}

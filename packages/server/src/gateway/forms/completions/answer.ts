import type { Usage } from '@trainyard/generation';
import type { Completion, CompletionChoice } from '@trainyard/protocol';

import { type AnswerIdentity, type CollectedChoice, collectChoices, toUsage } from '../shared/collected-choices.ts';
import type { OpenedGeneration } from '../../../seams/streams/chat-events.ts';
import type { OrderedCompletionLogprobs } from './logprobs.ts';
import type { CompletionPrompt } from './prompts.ts';
import type { CompletionFormat } from './request.ts';
import type { OrderedPromptLogprobs } from '../shared/logprobs.ts';
import { PromptPart } from './prompt-part.ts';

/** A `Completion` that keeps its order of keys in `toOrderedJson`. */
type CompletionAnswer = Omit<Completion, 'choices'> & { choices: AnswerChoice[] };
type AnswerChoice = Omit<CompletionChoice, 'logprobs' | 'prompt_logprobs'> & {
  logprobs: OrderedCompletionLogprobs | null;
  prompt_logprobs: OrderedPromptLogprobs | null;
};

export async function collectCompletion(
  generations: readonly Promise<OpenedGeneration>[],
  prompts: readonly CompletionPrompt[],
  identity: AnswerIdentity,
  format: CompletionFormat,
): Promise<CompletionAnswer> {
  const answers = await Promise.all(
    prompts.map(async (prompt, promptIndex) => {
      const generation = await generations[promptIndex]!;
      const { choices, usage } = await collectChoices(generation, format.numChoices);
      const part = new PromptPart(prompt, generation, format);
      const firstIndex = promptIndex * format.numChoices;
      return { usage, choices: choices.map((choice, index) => toChoice(choice, firstIndex + index, part, format)) };
    }),
  );
  return {
    id: identity.id,
    object: 'text_completion',
    created: identity.created,
    model: identity.model,
    choices: answers.flatMap(({ choices }) => choices),
    service_tier: null,
    system_fingerprint: identity.fingerprint,
    usage: toUsage(sumUsage(answers.map(({ usage }) => usage))),
    kv_transfer_params: null,
  };
}

function toChoice(choice: CollectedChoice, index: number, prompt: PromptPart, format: CompletionFormat): AnswerChoice {
  const { isPromptOnly, hasTokenIds } = format;
  return {
    index,
    text: prompt.echo + (isPromptOnly ? '' : choice.text.join('')),
    logprobs: prompt.createLogprobWriter()?.write(isPromptOnly ? [] : choice.logprobs) ?? null,
    finish_reason: isPromptOnly ? 'length' : choice.finishReason,
    stop_reason: isPromptOnly ? null : choice.stopReason,
    token_ids: hasTokenIds ? (isPromptOnly ? [] : choice.tokenIds) : null,
    prompt_logprobs: prompt.promptLogprobs,
    prompt_token_ids: hasTokenIds ? [...prompt.tokenIds] : null,
    ...prompt.promptText,
    ...(choice.recordId === null ? {} : { record_id: choice.recordId }),
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

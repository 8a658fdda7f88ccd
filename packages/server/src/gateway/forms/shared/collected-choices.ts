import type { FinishReason, TokenLogprob } from '@trainyard/backend';
import type { Usage } from '@trainyard/generation';
import type { CompletionUsage } from '@trainyard/protocol';

import type { ResolvedModel } from '../../../seams/contract/model-names.ts';
import type { CompletedEvent, OpenedGeneration, ParsedReply } from '../../../seams/streams/chat-events.ts';

export interface AnswerIdentity {
  id: string;
  /** Unix seconds. */
  created: number;
  model: string;
  fingerprint: string;
}

/** Identifies the exact weights: eight hex digits of the adapter's digest, or `base`. */
export function fingerprintOf(model: ResolvedModel): string {
  const digest = model.kind === 'base' ? null : model.digest;
  return `trainyard-${digest?.slice(0, 8) ?? 'base'}`;
}

export interface CollectedChoice {
  text: string[];
  /** Null for an unparsed reply. */
  parsed: ParsedReply | null;
  tokenIds: number[];
  logprobs: TokenLogprob[];
  finishReason: FinishReason;
  stopReason: string | number | null;
  /** Id of the record of its sampling; null = none. */
  recordId: string | null;
}

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

/** Token counts of one request in the API's form. */
export function toUsage(usage: Usage): CompletionUsage {
  return {
    prompt_tokens: usage.promptTokens,
    total_tokens: usage.promptTokens + usage.completionTokens,
    completion_tokens: usage.completionTokens,
    prompt_tokens_details: { cached_tokens: usage.cachedTokens },
    completion_tokens_details: usage.reasoningTokens === undefined ? null : { reasoning_tokens: usage.reasoningTokens },
  };
}

import type { GenerateTokensAnswer, GenerateTokensChunk } from '@trainyard/protocol';

import { collectChoices, toUsage } from '../shared/collected-choices.ts';
import type { OpenedGeneration } from '../../../seams/streams/chat-events.ts';
import { MappedEvents } from '../../../seams/streams/mapped-events.ts';
import { type OrderedPromptLogprobs, toChoiceLogprobs, toPromptLogprobs } from '../shared/logprobs.ts';
import type { StreamFormat } from '../shared/sampling-request.ts';

export interface TokenFormat {
  requestId: string;
  hasLogprobs: boolean;
  numChoices: number;
  /** Null = one JSON answer. */
  stream: StreamFormat | null;
}

/** An answer that keeps its order of keys in `toOrderedJson`. */
type TokenAnswer = Omit<GenerateTokensAnswer, 'prompt_logprobs'> & { prompt_logprobs: OrderedPromptLogprobs | null };

export async function collectTokens(generation: OpenedGeneration, format: TokenFormat): Promise<TokenAnswer> {
  const { choices, usage, promptLogprobs } = await collectChoices(generation, format.numChoices);
  return {
    request_id: format.requestId,
    choices: choices.map(({ tokenIds, logprobs, finishReason, stopReason, recordId }, index) => ({
      index,
      token_ids: tokenIds,
      logprobs: tokenLogprobs(format.hasLogprobs ? logprobs : null),
      finish_reason: finishReason,
      stop_reason: stopReason,
      routed_experts: null,
      ...(recordId === null ? {} : { record_id: recordId }),
    })),
    prompt_logprobs: promptLogprobs ? toPromptLogprobs(promptLogprobs) : null,
    kv_transfer_params: null,
    usage: toUsage(usage),
  };
}

/** Converts a generation to chunks, including tokens without text yet. */
export function toTokenChunks(
  generation: OpenedGeneration,
  { requestId, hasLogprobs, stream }: TokenFormat,
): AsyncIterableIterator<GenerateTokensChunk, void> {
  const promptTokens = generation.started.promptTokenIds.length;
  const counts = new Map<number, number>();
  const usageOf = (completionTokens: number) => ({
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
  });
  return new MappedEvents(generation, [], (event): GenerateTokensChunk | null => {
    if (event.kind === 'completed') {
      if (!stream?.hasUsage) return null;
      const { completionTokens, cachedTokens } = event.usage;
      const usage = { ...usageOf(completionTokens), prompt_tokens_details: { cached_tokens: cachedTokens } };
      return { request_id: requestId, choices: [], usage };
    }
    const isLast = event.kind === 'finished';
    const { index, tokenIds } = event;
    if (tokenIds.length === 0 && !isLast) return null;
    const count = (counts.get(index) ?? 0) + tokenIds.length;
    counts.set(index, count);
    const choice = {
      index,
      token_ids: tokenIds,
      logprobs: tokenLogprobs(hasLogprobs ? event.logprobs : null),
      finish_reason: isLast ? event.finishReason : null,
      stop_reason: isLast ? event.stopReason : null,
      ...(isLast && event.recordId !== undefined ? { record_id: event.recordId } : {}),
    };
    return {
      request_id: requestId,
      choices: [choice],
      ...(stream?.hasContinuousUsage ? { usage: usageOf(count) } : {}),
    };
  });
}

/**
 * As in a chat, except that the list of the most likely is never empty: with none requested it has the token
 * itself, as in vLLM.
 */
function tokenLogprobs(logprobs: Parameters<typeof toChoiceLogprobs>[0]): ReturnType<typeof toChoiceLogprobs> {
  const converted = toChoiceLogprobs(logprobs, true);
  if (converted === null) return null;
  const content = converted.content.map(({ top_logprobs: top, ...own }) => ({
    ...own,
    top_logprobs: top.length > 0 ? top : [own],
  }));
  return { ...converted, content };
}

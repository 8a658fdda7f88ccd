import type { ChatCompletionChunk, ChunkChoice, ChunkUsage } from '@trainyard/protocol';

import type { AnswerIdentity } from './chat-answer.ts';
import type { OpenedGeneration, OutputEvent } from './chat-events.ts';
import type { AnswerFormat } from './chat-request.ts';
import { toChoiceLogprobs } from './logprobs.ts';

/**
 * A generation as chunks: one role chunk a choice, deltas as they come, one finish chunk a choice, then the usage if asked for.
 * Keys are present or absent as vLLM sends them: `stop_reason` only at the end, `usage` only where asked for.
 */
export async function* toChunks(
  generation: OpenedGeneration,
  identity: AnswerIdentity,
  format: AnswerFormat,
  numChoices: number,
): AsyncGenerator<ChatCompletionChunk, void> {
  const writer = new ChunkWriter(generation, identity, format);
  try {
    for (let index = 0; index < numChoices; index += 1) yield writer.roleChunk(index);
    for await (const event of generation.events) {
      if (event.kind === 'completed') {
        if (format.stream?.hasUsage) yield writer.usageChunk(event.usage.completionTokens, event.usage.cachedTokens);
        return;
      }
      // A step may give neither text nor tokens, for instance while a character is incomplete.
      if (event.kind === 'delta' && event.text === '' && event.tokenIds.length === 0) continue;
      yield writer.outputChunk(event);
    }
  } finally {
    // Left before the first event was read, the loop above has not ended the generation.
    await generation.events.return();
  }
}

class ChunkWriter {
  readonly #head: { id: string; object: 'chat.completion.chunk'; created: number; model: string };
  readonly #fingerprint: string;
  readonly #promptTokenIds: number[];
  readonly #format: AnswerFormat;
  /** Completion tokens by choice. */
  readonly #counts = new Map<number, number>();

  constructor(generation: OpenedGeneration, identity: AnswerIdentity, format: AnswerFormat) {
    this.#head = { id: identity.id, object: 'chat.completion.chunk', created: identity.created, model: identity.model };
    this.#fingerprint = identity.fingerprint;
    this.#promptTokenIds = generation.started.promptTokenIds;
    this.#format = format;
  }

  roleChunk(index: number): ChatCompletionChunk {
    return {
      ...this.#head,
      choices: [{ index, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }],
      ...this.#runningUsage(0),
      prompt_token_ids: this.#format.hasPromptTokenIds ? this.#promptTokenIds : null,
      prompt_text: null,
    };
  }

  outputChunk(event: OutputEvent): ChatCompletionChunk {
    const { index } = event;
    const count = (this.#counts.get(index) ?? 0) + event.tokenIds.length;
    this.#counts.set(index, count);
    const isLast = event.kind === 'finished';
    const choice: ChunkChoice = {
      index,
      delta: { content: event.text },
      logprobs: toChoiceLogprobs(this.#format.hasLogprobs ? event.logprobs : null, this.#format.hasTokensAsIds),
      finish_reason: isLast ? event.finishReason : null,
      token_ids: this.#format.hasTokenIds ? event.tokenIds : null,
    };
    if (isLast) choice.stop_reason = event.stopReason;
    const fingerprint = isLast && !this.#format.stream?.hasUsage ? { system_fingerprint: this.#fingerprint } : {};
    return { ...this.#head, choices: [choice], ...fingerprint, ...this.#runningUsage(count) };
  }

  usageChunk(completionTokens: number, cachedTokens: number): ChatCompletionChunk {
    const usage = { ...this.#usage(completionTokens), prompt_tokens_details: { cached_tokens: cachedTokens } };
    return { ...this.#head, choices: [], system_fingerprint: this.#fingerprint, usage };
  }

  #runningUsage(completionTokens: number): { usage?: ChunkUsage } {
    return this.#format.stream?.hasContinuousUsage ? { usage: this.#usage(completionTokens) } : {};
  }

  #usage(completionTokens: number): ChunkUsage {
    const promptTokens = this.#promptTokenIds.length;
    return {
      prompt_tokens: promptTokens,
      total_tokens: promptTokens + completionTokens,
      completion_tokens: completionTokens,
    };
  }
}

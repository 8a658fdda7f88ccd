import type { Usage } from '@trainyard/generation';
import type { ChatCompletionChunk, ChunkChoice, ChunkDelta, ChunkUsage } from '@trainyard/protocol';

import type { AnswerIdentity } from '../shared/collected-choices.ts';
import type { OpenedGeneration, OutputEvent } from '../../../seams/streams/chat-events.ts';
import { hidesTokens, toDelta, toFinishReason } from './reply.ts';
import type { AnswerFormat } from './request.ts';
import { policySpans } from './policy-spans.ts';
import { toChoiceLogprobs } from '../shared/logprobs.ts';
import { OutputGatherer } from '../../../seams/streams/output-gatherer.ts';
import { MappedEvents } from '../../../seams/streams/mapped-events.ts';

/**
 * Converts a generation to chunks: one role chunk per choice, the echo, deltas as they come, one finish chunk
 * per choice, then the usage if requested. Keys are present or absent as in vLLM: `stop_reason` only at the
 * end, `usage` only if requested.
 */
export function toChunks(
  generation: OpenedGeneration,
  identity: AnswerIdentity,
  format: AnswerFormat,
  numChoices: number,
): AsyncIterableIterator<ChatCompletionChunk, void> {
  const writer = new ChunkWriter(generation, identity, format);
  const gatherer = new OutputGatherer(format.streamInterval);
  const opening = [...writer.openingChunks(numChoices)];
  return new MappedEvents(generation, opening, (event) => {
    if (event.kind === 'completed') return format.stream?.hasUsage ? writer.usageChunk(event.usage) : null;
    const output = gatherer.gather(event);
    return output && writer.outputChunk(output);
  });
}

class ChunkWriter {
  readonly #head: { id: string; object: 'chat.completion.chunk'; created: number; model: string };
  readonly #fingerprint: string;
  readonly #promptTokenIds: number[];
  readonly #promptText: string | null;
  readonly #format: AnswerFormat;
  readonly #counts = new Map<number, number>();

  constructor(generation: OpenedGeneration, identity: AnswerIdentity, format: AnswerFormat) {
    this.#head = { id: identity.id, object: 'chat.completion.chunk', created: identity.created, model: identity.model };
    this.#fingerprint = identity.fingerprint;
    this.#promptTokenIds = generation.started.promptTokenIds;
    this.#promptText = generation.promptText;
    this.#format = format;
  }

  /** The role for every choice, then the echo for every choice. */
  *openingChunks(numChoices: number): Generator<ChatCompletionChunk, void> {
    const { role, echo, hasPromptTokenIds } = this.#format;
    const prompt = {
      prompt_token_ids: hasPromptTokenIds ? this.#promptTokenIds : null,
      prompt_text: this.#promptText,
    };
    for (let index = 0; index < numChoices; index += 1)
      yield { ...this.#openingChunk(index, { role, content: '' }), ...prompt };
    if (echo === null || echo === '') return;
    for (let index = 0; index < numChoices; index += 1) yield this.#openingChunk(index, { content: echo });
  }

  /** Null for an event without visible content. */
  outputChunk(event: OutputEvent): ChatCompletionChunk | null {
    const { index, tokenIds } = event;
    const count = (this.#counts.get(index) ?? 0) + tokenIds.length;
    this.#counts.set(index, count);
    const isLast = event.kind === 'finished';
    const choice = this.#toChoice(event);
    if (!isLast && !tellsSomething(event, choice)) return null;
    const fingerprint = isLast && !this.#format.stream?.hasUsage ? { system_fingerprint: this.#fingerprint } : {};
    return { ...this.#head, choices: [choice], ...fingerprint, ...this.#runningUsage(count) };
  }

  usageChunk({ completionTokens, cachedTokens, reasoningTokens }: Usage): ChatCompletionChunk {
    const usage: ChunkUsage = {
      ...this.#usage(completionTokens),
      prompt_tokens_details: { cached_tokens: cachedTokens },
      ...(reasoningTokens === undefined ? {} : { completion_tokens_details: { reasoning_tokens: reasoningTokens } }),
    };
    return { ...this.#head, choices: [], system_fingerprint: this.#fingerprint, usage };
  }

  #openingChunk(index: number, delta: ChunkDelta): ChatCompletionChunk {
    return {
      ...this.#head,
      choices: [{ index, delta, logprobs: null, finish_reason: null }],
      ...this.#runningUsage(0),
    };
  }

  #toChoice(event: OutputEvent): ChunkChoice {
    const { hasLogprobs, hasTokensAsIds, hasTokenIds } = this.#format;
    const isHidden = hidesTokens(this.#format, event.reply !== undefined);
    const choice: ChunkChoice = {
      index: event.index,
      delta: toDelta(event, this.#format),
      logprobs: toChoiceLogprobs(hasLogprobs && !isHidden ? event.logprobs : null, hasTokensAsIds),
      finish_reason: null,
      token_ids: hasTokenIds && !isHidden ? event.tokenIds : null,
    };
    if (event.kind === 'delta') return choice;
    const { finishReason, stopReason, parsed = null, recordId } = event;
    return {
      ...choice,
      finish_reason: toFinishReason({ finishReason, parsed }, this.#format),
      stop_reason: stopReason,
      ...(recordId === undefined ? {} : { record_id: recordId }),
      ...(isHidden ? {} : policySpans(this.#format, this.#head, this.#counts.get(event.index) ?? 0)),
    };
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

/**
 * True if a step has visible content. It may have neither text nor tokens, for example while a character is
 * incomplete. In a parsed reply, tokens outside all parts, such as tags, are only visible with ids or
 * log-probabilities.
 */
function tellsSomething(
  { text, tokenIds, reply }: OutputEvent,
  { delta, logprobs, token_ids: ids }: ChunkChoice,
): boolean {
  if (reply === undefined) return text !== '' || tokenIds.length > 0;
  const hasTokens = tokenIds.length > 0 && ((logprobs ?? null) !== null || (ids ?? null) !== null);
  return hasTokens || Object.keys(delta).length > 0;
}

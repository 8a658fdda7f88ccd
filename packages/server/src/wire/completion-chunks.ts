import type { Usage } from '@trainyard/engine';
import type { CompletionChunk, CompletionChunkChoice, ChunkUsage } from '@trainyard/protocol';

import type { AnswerIdentity } from './chat-answer.ts';
import type { CompletedEvent, OpenedGeneration, OutputEvent } from './chat-events.ts';
import { sumUsage } from './completion-answer.ts';
import { CompletionLogprobWriter } from './completion-logprobs.ts';
import type { CompletionFormat, CompletionPrompt } from './completion-request.ts';
import { mergeStreams } from './merge-streams.ts';

/**
 * The generations of all prompts as chunks, interleaved as they come: no role chunk, an echoed prompt in front of the first text of
 * each choice, the usage at the end if asked for.
 */
export async function* toCompletionChunks(
  generations: readonly Promise<OpenedGeneration>[],
  prompts: readonly CompletionPrompt[],
  identity: AnswerIdentity,
  format: CompletionFormat,
): AsyncGenerator<CompletionChunk, void> {
  const writer = new ChunkWriter(prompts, identity, format);
  const usages: Usage[] = [];
  for await (const { source, item: event } of mergeStreams(generations.map(eventsOf))) {
    if (event.kind === 'completed') {
      usages.push(event.usage);
      continue;
    }
    // A step may give neither text nor tokens, for instance while a character is incomplete.
    if (event.kind === 'delta' && event.text === '' && event.tokenIds.length === 0) continue;
    const chunk = writer.outputChunk(source, event);
    if (chunk !== null) yield chunk;
  }
  if (format.stream?.hasUsage) yield writer.usageChunk(sumUsage(usages));
}

async function* eventsOf(generation: Promise<OpenedGeneration>): AsyncGenerator<OutputEvent | CompletedEvent, void> {
  yield* (await generation).events;
}

/** What was sent of one choice. */
interface ChoiceState {
  numTokens: number;
  isStarted: boolean;
  logprobs: CompletionLogprobWriter | null;
}

class ChunkWriter {
  readonly #head: Pick<CompletionChunk, 'id' | 'object' | 'created' | 'model'>;
  readonly #fingerprint: string;
  readonly #prompts: readonly CompletionPrompt[];
  readonly #format: CompletionFormat;
  readonly #states = new Map<number, ChoiceState>();

  constructor(prompts: readonly CompletionPrompt[], identity: AnswerIdentity, format: CompletionFormat) {
    this.#head = { id: identity.id, object: 'text_completion', created: identity.created, model: identity.model };
    this.#fingerprint = identity.fingerprint;
    this.#prompts = prompts;
    this.#format = format;
  }

  /** Null when the event adds nothing: the token behind a prompt that is answered alone. */
  outputChunk(promptIndex: number, event: OutputEvent): CompletionChunk | null {
    const format = this.#format;
    const index = promptIndex * format.numChoices + event.index;
    const prompt = this.#prompts[promptIndex];
    const textBefore = prompt?.text ?? '';
    const state = this.#stateOf(index, textBefore);
    state.numTokens += event.tokenIds.length;
    const isLast = event.kind === 'finished';
    if (format.isPromptOnly && !isLast) return null;
    const isFirst = !state.isStarted;
    state.isStarted = true;
    const choice: CompletionChunkChoice = {
      index,
      text: (isFirst ? textBefore : '') + (format.isPromptOnly ? '' : event.text),
      logprobs: state.logprobs?.write(event.logprobs ?? []) ?? null,
      finish_reason: isLast ? (format.isPromptOnly ? 'length' : event.finishReason) : null,
      stop_reason: isLast && !format.isPromptOnly ? event.stopReason : null,
      token_ids: format.hasTokenIds ? (format.isPromptOnly ? [] : event.tokenIds) : null,
      ...(isFirst ? { prompt_token_ids: format.hasTokenIds ? [...(prompt?.tokenIds ?? [])] : null } : {}),
    };
    const usage = format.stream?.hasContinuousUsage
      ? { usage: toChunkUsage(prompt?.tokenIds.length ?? 0, state.numTokens) }
      : {};
    const fingerprint = isLast && !format.stream?.hasUsage ? { system_fingerprint: this.#fingerprint } : {};
    return { ...this.#head, choices: [choice], ...fingerprint, ...usage };
  }

  usageChunk(total: Usage): CompletionChunk {
    const usage = {
      ...toChunkUsage(total.promptTokens, total.completionTokens),
      prompt_tokens_details: { cached_tokens: total.cachedTokens },
    };
    return { ...this.#head, choices: [], system_fingerprint: this.#fingerprint, usage };
  }

  #stateOf(index: number, textBefore: string): ChoiceState {
    const { numTopLogprobs: numTop, hasTokensAsIds } = this.#format;
    const logprobs = numTop === null ? null : new CompletionLogprobWriter({ numTop, hasTokensAsIds, textBefore });
    const state = this.#states.get(index) ?? { numTokens: 0, isStarted: false, logprobs };
    this.#states.set(index, state);
    return state;
  }
}

function toChunkUsage(promptTokens: number, completionTokens: number): ChunkUsage {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
  };
}

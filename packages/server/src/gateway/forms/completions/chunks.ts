import type { Usage } from '@trainyard/generation';
import type { CompletionChunk, CompletionChunkChoice, ChunkUsage } from '@trainyard/protocol';

import type { AnswerIdentity } from '../shared/collected-choices.ts';
import type { CompletedEvent, OpenedGeneration, OutputEvent } from '../../../seams/streams/chat-events.ts';
import { sumUsage } from './answer.ts';
import type { CompletionLogprobWriter, OrderedCompletionLogprobs } from './logprobs.ts';
import type { CompletionPrompt } from './prompts.ts';
import type { CompletionFormat } from './request.ts';
import { mergeStreams } from '../../../seams/streams/merge-streams.ts';
import { OutputGatherer } from '../../../seams/streams/output-gatherer.ts';
import { PromptPart } from './prompt-part.ts';

/**
 * Converts the generations of all prompts to interleaved chunks: no role chunk, an echoed prompt before the
 * first text of each choice and its logprobs before the first ones, the usage at the end if requested.
 */
export async function* toCompletionChunks(
  generations: readonly Promise<OpenedGeneration>[],
  prompts: readonly CompletionPrompt[],
  identity: AnswerIdentity,
  format: CompletionFormat,
): AsyncGenerator<AnswerChunk, void> {
  const writer = new ChunkWriter(identity, format);
  const usages: Usage[] = [];
  const streams = prompts.map((prompt, place) => outputsOf(generations[place]!, prompt, format));
  for await (const { source, item } of mergeStreams(streams)) {
    if (item.event.kind === 'completed') usages.push(item.event.usage);
    else {
      const chunk = writer.outputChunk(source, item.part, item.event);
      if (chunk !== null) yield chunk;
    }
  }
  if (format.stream?.hasUsage) yield writer.usageChunk(sumUsage(usages));
}

/** Output of one prompt's choices, in the sizes to send. */
async function* outputsOf(
  opening: Promise<OpenedGeneration>,
  prompt: CompletionPrompt,
  format: CompletionFormat,
): AsyncGenerator<{ part: PromptPart; event: OutputEvent | CompletedEvent }, void> {
  const generation = await opening;
  const part = new PromptPart(prompt, generation, format);
  const gatherer = new OutputGatherer(format.streamInterval);
  for await (const event of generation.events) {
    const due = event.kind === 'completed' ? event : gatherer.gather(event);
    if (due !== null) yield { part, event: due };
  }
}

/** A `CompletionChunk` that keeps its order of keys in `toOrderedJson`. */
type AnswerChunk = Omit<CompletionChunk, 'choices'> & { choices: ChunkChoice[] };
type ChunkChoice = Omit<CompletionChunkChoice, 'logprobs'> & { logprobs: OrderedCompletionLogprobs | null };

/** Progress of one choice's stream. */
interface ChoiceState {
  numTokens: number;
  isStarted: boolean;
  logprobs: CompletionLogprobWriter | null;
}

class ChunkWriter {
  readonly #head: Pick<CompletionChunk, 'id' | 'object' | 'created' | 'model'>;
  readonly #fingerprint: string;
  readonly #format: CompletionFormat;
  readonly #states = new Map<number, ChoiceState>();

  constructor(identity: AnswerIdentity, format: CompletionFormat) {
    this.#head = { id: identity.id, object: 'text_completion', created: identity.created, model: identity.model };
    this.#fingerprint = identity.fingerprint;
    this.#format = format;
  }

  /**
   * Null for an event without additions: no text and no token yet, or the token after a prompt that is the
   * whole answer.
   */
  outputChunk(promptIndex: number, prompt: PromptPart, event: OutputEvent): AnswerChunk | null {
    const { numChoices, isPromptOnly, hasTokenIds, stream } = this.#format;
    const index = promptIndex * numChoices + event.index;
    const state = this.#stateOf(index, prompt);
    state.numTokens += event.tokenIds.length;
    const isLast = event.kind === 'finished';
    // A step may have neither text nor tokens, for example while a character is incomplete.
    if (!isLast && (isPromptOnly || (event.text === '' && event.tokenIds.length === 0))) return null;
    const isFirst = !state.isStarted;
    state.isStarted = true;
    const choice: ChunkChoice = {
      index,
      text: (isFirst ? prompt.echo : '') + (isPromptOnly ? '' : event.text),
      logprobs: state.logprobs?.write(isPromptOnly ? [] : (event.logprobs ?? [])) ?? null,
      finish_reason: isLast ? (isPromptOnly ? 'length' : event.finishReason) : null,
      stop_reason: isLast && !isPromptOnly ? event.stopReason : null,
      token_ids: hasTokenIds ? (isPromptOnly ? [] : event.tokenIds) : null,
      ...(isFirst ? { prompt_token_ids: hasTokenIds ? [...prompt.tokenIds] : null, ...prompt.promptText } : {}),
      ...(isLast && event.recordId !== undefined ? { record_id: event.recordId } : {}),
    };
    const usage = stream?.hasContinuousUsage ? { usage: toChunkUsage(prompt.tokenIds.length, state.numTokens) } : {};
    const fingerprint = isLast && !stream?.hasUsage ? { system_fingerprint: this.#fingerprint } : {};
    return { ...this.#head, choices: [choice], ...fingerprint, ...usage };
  }

  usageChunk(total: Usage): AnswerChunk {
    const usage = {
      ...toChunkUsage(total.promptTokens, total.completionTokens),
      prompt_tokens_details: { cached_tokens: total.cachedTokens },
    };
    return { ...this.#head, choices: [], system_fingerprint: this.#fingerprint, usage };
  }

  #stateOf(index: number, prompt: PromptPart): ChoiceState {
    const known = this.#states.get(index);
    if (known !== undefined) return known;
    const state = { numTokens: 0, isStarted: false, logprobs: prompt.createLogprobWriter() };
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

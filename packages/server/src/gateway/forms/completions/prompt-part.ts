import type { OpenedGeneration, PromptScoredEvent } from '../../../seams/streams/chat-events.ts';
import { CompletionLogprobWriter, type OrderedCompletionLogprobs, promptColumns } from './logprobs.ts';
import type { CompletionPrompt } from './prompts.ts';
import type { CompletionFormat } from './request.ts';
import { type OrderedPromptLogprobs, toPromptLogprobs, withinRank } from '../shared/logprobs.ts';

/** Part of an answer about its prompt, shared by all choices, whole or in a stream. */
export class PromptPart {
  readonly tokenIds: readonly number[];
  /** Text before each choice's text. */
  readonly echo: string;
  /** The last two keys of a choice; absent unless requested. */
  readonly promptText: { prompt_text?: string };
  readonly promptLogprobs: OrderedPromptLogprobs | null;
  readonly #textBefore: string;
  readonly #columns: OrderedCompletionLogprobs | null;
  readonly #format: CompletionFormat;

  constructor(prompt: CompletionPrompt, { scores, promptText }: OpenedGeneration, format: CompletionFormat) {
    this.tokenIds = prompt.tokenIds;
    this.#textBefore = prompt.echo ?? '';
    this.echo = format.hasEcho ? this.#textBefore : '';
    this.promptText = promptText === null ? {} : { prompt_text: promptText };
    this.promptLogprobs = orderedLogprobs(scores, format.numPromptLogprobs);
    this.#format = format;
    const { numTopLogprobs: numTop, hasTokensAsIds, hasEchoLogprobs } = format;
    this.#columns =
      numTop === null || !hasEchoLogprobs || scores === null
        ? null
        : promptColumns(scores, this.#textBefore, { numTop, hasTokensAsIds });
  }

  /** Creates a writer of one choice's log-probabilities; null if none were requested. */
  createLogprobWriter(): CompletionLogprobWriter | null {
    const { numTopLogprobs, hasScoredIds, hasTokensAsIds } = this.#format;
    if (numTopLogprobs === null) return null;
    const numTop = hasScoredIds ? Infinity : numTopLogprobs;
    return new CompletionLogprobWriter({ numTop, hasTokensAsIds }, this.#textBefore, this.#columns);
  }
}

function orderedLogprobs(
  scores: PromptScoredEvent | null,
  numPromptLogprobs: number | null,
): OrderedPromptLogprobs | null {
  if (scores === null || numPromptLogprobs === null) return null;
  return toPromptLogprobs(
    scores.promptLogprobs.map(
      (entry) => entry && withinRank(entry, numPromptLogprobs === -1 ? Infinity : numPromptLogprobs),
    ),
  );
}

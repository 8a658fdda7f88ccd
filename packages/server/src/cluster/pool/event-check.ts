import type { PromptLogprobs, TokenLogprob } from '@trainyard/backend';
import type { EngineEvent } from '@trainyard/generation';

export interface AnswerBounds {
  readonly numChoices: number;
  /** tokens of one choice */
  readonly maxTokens: number;
  readonly vocabSize: number;
}

/**
 * Checks that the events of a remote engine are valid for the request: in order, for its choices, with tokens
 * of its vocabulary, and with an end. This detects another build or broken memory before its data reach
 * training.
 * @throws {RangeError} with a message for the log, instead of the invalid event
 */
export class EventCheck {
  readonly #bounds: AnswerBounds;
  /** Tokens of each unfinished choice. */
  readonly #numTokens: Map<number, number>;
  #hasStarted = false;

  constructor(bounds: AnswerBounds) {
    this.#bounds = bounds;
    this.#numTokens = new Map(Array.from({ length: bounds.numChoices }, (_, index) => [index, 0]));
  }

  check(event: EngineEvent): void {
    if (event.kind === 'failed') return;
    if (event.kind === 'started') {
      if (this.#hasStarted) throw new RangeError('a request started twice');
      this.#checkTokens(event.promptTokenIds);
      this.#hasStarted = true;
      return;
    }
    if (!this.#hasStarted) throw new RangeError(`the event ${shown(event.kind)} came before the start`);
    switch (event.kind) {
      case 'prompt_scored':
        return checkPrompt(event.promptLogprobs);
      case 'delta':
      case 'finished':
        return this.#checkOutput(event);
      case 'completed':
        if (this.#numTokens.size > 0) throw new RangeError('a request was completed before its choices');
        return checkPrompt(event.promptLogprobs);
      default:
        throw new RangeError(`there is no event ${shown((event satisfies never as EngineEvent).kind)}`);
    }
  }

  #checkOutput(event: Extract<EngineEvent, { kind: 'delta' | 'finished' }>): void {
    const { kind, index, tokenIds, logprobs } = event;
    const { maxTokens } = this.#bounds;
    const before = this.#numTokens.get(index);
    if (before === undefined) throw new RangeError(`the choice ${shown(index)} is not in progress`);
    this.#checkTokens(tokenIds);
    const numTokens = before + tokenIds.length;
    if (numTokens > maxTokens) throw new RangeError(`the choice ${index} has more than ${maxTokens} tokens`);
    checkSampled(logprobs);
    if (kind === 'finished') {
      // NaN: training computes it.
      checkNumbers([...(event.sampling?.trace?.logprobs ?? [])].filter((logprob) => !Number.isNaN(logprob)));
      this.#numTokens.delete(index);
    } else this.#numTokens.set(index, numTokens);
  }

  #checkTokens(ids: readonly number[]): void {
    const { vocabSize } = this.#bounds;
    if (!Array.isArray(ids)) throw new RangeError('token ids are no list');
    for (const id of ids)
      if (!Number.isInteger(id) || id < 0 || id >= vocabSize)
        throw new RangeError(`the token ${shown(id)} is outside the vocabulary of `);
  }
}

function checkPrompt(scored: PromptLogprobs | undefined): void {
  for (const entries of listOf(scored)) checkNumbers(listOf(entries).map(({ logprob }) => logprob));
}

function checkSampled(tokens: readonly TokenLogprob[] | null): void {
  for (const { logprob, top, logitSum = 0 } of listOf(tokens))
    checkNumbers([logprob, logitSum, ...listOf(top).map((other) => other.logprob)]);
}

/** Any scale is allowed, because logits may be requested instead. */
function checkNumbers(logprobs: Iterable<number>): void {
  for (const logprob of logprobs)
    if (!Number.isFinite(logprob)) throw new RangeError(`the log-probability ${shown(logprob)} is no number`);
}

/** Empty for optional lists that are absent. */
function listOf<Item>(items: readonly Item[] | null | undefined): readonly Item[] {
  if (items === null || items === undefined) return [];
  if (!Array.isArray(items)) throw new RangeError('log-probabilities are no list');
  return items;
}

function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 100);
}

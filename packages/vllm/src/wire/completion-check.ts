import { type ChoiceTokens, UnreadableAnswer } from './completion-events.ts';

/** Facts of a request that every answer to it must match. */
export interface CompletionBounds {
  readonly numChoices: number;
  readonly maxTokens: number;
  readonly vocabSize: number;
}

/**
 * Check of one streamed completion: tokens, choices and lengths allowed by its request, up to the end of each
 * choice.
 */
export class CompletionCheck {
  readonly #bounds: CompletionBounds;
  readonly #numTokens: number[];
  readonly #ended: boolean[];

  constructor(bounds: CompletionBounds) {
    this.#bounds = bounds;
    this.#numTokens = Array.from({ length: bounds.numChoices }, () => 0);
    this.#ended = Array.from({ length: bounds.numChoices }, () => false);
  }

  /** @throws {UnreadableAnswer} */
  read({ index, tokenIds, finishReason }: ChoiceTokens): void {
    const { numChoices, maxTokens, vocabSize } = this.#bounds;
    const count = this.#numTokens[index];
    if (count === undefined) throw new UnreadableAnswer(`it has choice ${index}, but ${numChoices} were requested`);
    const unknown = tokenIds.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
    if (unknown !== undefined)
      throw new UnreadableAnswer(`it has token ${unknown}, but the model has ${vocabSize} tokens`);
    const total = count + tokenIds.length;
    if (total > maxTokens)
      throw new UnreadableAnswer(`a choice has ${total} tokens, but at most ${maxTokens} were requested`);
    this.#numTokens[index] = total;
    if (finishReason !== null) this.#ended[index] = true;
  }

  /** True if every choice has ended. */
  get isComplete(): boolean {
    return this.#ended.every(Boolean);
  }
}

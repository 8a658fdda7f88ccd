import type { ChoiceSampling } from '@trainyard/protocol/fields';
import type { TemplateMessage } from '../contract/template-message.ts';

/** A turn that was sampled. */
export interface ChoiceItem {
  kind: 'choice';
  message: TemplateMessage;
  /** All sampled tokens, the end token included if it was sampled. */
  tokenIds: Int32Array;
  /** Shape as `tokenIds`. */
  logprobs: Float32Array;
  /** The prompt's ids at inference, if known. Default: what the template gives for the messages before. */
  promptTokenIds?: Int32Array;
  /** How it was drawn: null = plainly from the model's distribution; absent = not known. */
  sampling?: ChoiceSampling | null;
  /** Why it ended, as inference said: `length` when it was cut off. Default: not known. */
  finishReason?: string;
}

/** Token ids as the trainer sees them: which were sampled, and how likely they were then. All arrays have shape `[T]`. */
export interface TrainingSequence {
  tokenIds: Int32Array;
  /** 1 on sampled tokens, else 0. */
  lossMask: Uint8Array;
  /** Log-probability at sampling time; NaN where not sampled. */
  oldLogprobs: Float32Array;
  /** Sampled choices inside. */
  numChoices: number;
  /** These choices in order, and where their tokens begin. */
  choices: readonly { start: number; choice: ChoiceItem }[];
  /**
   * Choices, after the first, whose prompt is not known and had other token ids, if it was what the template gives for the messages before, than
   * the prefix they have here: the same text cut into tokens differently, or a tool call that the template writes in its own way.
   */
  numDivergentPrompts: number;
}

/** A training sequence being put together, turn by turn. */
export class SequenceBuilder {
  readonly #tokenIds: number[] = [];
  readonly #lossMask: number[] = [];
  readonly #oldLogprobs: number[] = [];
  readonly #choices: { start: number; choice: ChoiceItem }[] = [];
  #numDivergentPrompts = 0;

  /** Text of the template: context only. */
  addContext(tokenIds: Int32Array): void {
    for (const id of tokenIds) this.#add(id, 0, Number.NaN);
  }

  /** Whether `prompt` is what stands here with `context` behind it. */
  becomes(prompt: Int32Array, context: Int32Array): boolean {
    const length = this.#tokenIds.length;
    return (
      prompt.length === length + context.length &&
      this.#equals(prompt.subarray(0, length)) &&
      context.every((id, index) => id === prompt[length + index])
    );
  }

  /** @param inferencePrompt the ids the choice was sampled after, compared with what stands here */
  addChoice(choice: ChoiceItem, inferencePrompt: Int32Array): void {
    const { tokenIds, logprobs } = choice;
    if (!this.#equals(inferencePrompt)) this.#numDivergentPrompts++;
    this.#choices.push({ start: this.#tokenIds.length, choice });
    tokenIds.forEach((id, index) => this.#add(id, 1, logprobs[index] ?? Number.NaN));
  }

  build(): TrainingSequence {
    return {
      tokenIds: Int32Array.from(this.#tokenIds),
      lossMask: Uint8Array.from(this.#lossMask),
      oldLogprobs: Float32Array.from(this.#oldLogprobs),
      numChoices: this.#choices.length,
      choices: this.#choices,
      numDivergentPrompts: this.#numDivergentPrompts,
    };
  }

  #add(id: number, mask: number, logprob: number): void {
    this.#tokenIds.push(id);
    this.#lossMask.push(mask);
    this.#oldLogprobs.push(logprob);
  }

  #equals(tokenIds: Int32Array): boolean {
    return tokenIds.length === this.#tokenIds.length && tokenIds.every((id, index) => id === this.#tokenIds[index]);
  }
}

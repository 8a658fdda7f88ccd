import type { ChoiceSampling } from '@trainyard/protocol/fields';
import type { TemplateMessage } from '../contract/template-message.ts';

export interface ChoiceItem {
  kind: 'choice';
  message: TemplateMessage;
  /** All sampled tokens, including the end token if sampled. */
  tokenIds: Int32Array;
  /** Same shape as `tokenIds`. */
  logprobs: Float32Array;
  /** Ids of the prompt at inference. Default: the template's rendering of the messages before. */
  promptTokenIds?: Int32Array;
  /** Sampling record: null = plainly from the model's distribution; absent = unknown. */
  sampling?: ChoiceSampling | null;
  /** Digest of the adapter that sampled it; null = the base model. Default: unknown. */
  policyDigest?: string | null;
  /** True if it names a missing record. Default false. */
  isRecordLost?: boolean;
  /** True if its tokens are untrained context. Default false. */
  isContext?: boolean;
  /** Finish reason of inference: `length` if it was cut off. Default: unknown. */
  finishReason?: string;
  /** Choices with the same record are one sample. Default: unknown. */
  recordId?: string;
  /** Id of its answer and its index there: different places are different samples. */
  answerPlace?: string;
}

/** Token ids for the trainer, with masks and log-probabilities of the sampled ones. All arrays have shape `[T]`. */
export interface TrainingSequence {
  tokenIds: Int32Array;
  /** 1 on sampled tokens, else 0. */
  lossMask: Uint8Array;
  /** Log-probability at sampling time; NaN on other tokens. */
  oldLogprobs: Float32Array;
  numChoices: number;
  /** Choices in order, with the start of their tokens. */
  choices: readonly { start: number; choice: ChoiceItem }[];
  /**
   * Choices after the first with an unknown prompt, whose prefix differs in ids from the template's rendering:
   * tokenised differently, or a tool call respelled.
   */
  numDivergentPrompts: number;
  /**
   * Length of a branch's first prompt after the prefix shared with an earlier sequence, computed only for the
   * branch. Null for the conversation's first sequence.
   */
  numBranchTokens: number | null;
}

export class SequenceBuilder {
  readonly #tokenIds: number[] = [];
  readonly #lossMask: number[] = [];
  readonly #oldLogprobs: number[] = [];
  readonly #choices: { start: number; choice: ChoiceItem }[] = [];
  #numDivergentPrompts = 0;
  #numBranchTokens: number | null = null;

  /** @param others sequences of the conversation so far */
  static behind(prompt: Int32Array, others: readonly SequenceBuilder[]): SequenceBuilder {
    const builder = new SequenceBuilder();
    builder.addContext(prompt);
    if (others.length === 0) return builder;
    // The latest usually share the most; one that shares more also has the next token.
    const longest = others.reduceRight((most, other) => {
      const mayShareMore = other.#tokenIds.length > most && other.#tokenIds[most] === prompt[most];
      return mayShareMore ? Math.max(most, other.#sharedLength(prompt)) : most;
    }, 0);
    builder.#numBranchTokens = prompt.length - longest;
    return builder;
  }

  /** Adds text of the template: only context. */
  addContext(tokenIds: Int32Array): void {
    for (const id of tokenIds) this.#add(id, 0, Number.NaN);
  }

  /** Ids of `prompt` after the sequence so far; null if it does not start with it. */
  restOf(prompt: Int32Array): Int32Array | null {
    const length = this.#tokenIds.length;
    return this.#sharedLength(prompt) === length ? prompt.subarray(length) : null;
  }

  /** @param inferencePrompt ids that the choice was sampled after, compared with the sequence */
  addChoice(choice: ChoiceItem, inferencePrompt: Int32Array): void {
    const { tokenIds, logprobs } = choice;
    if (!this.#equals(inferencePrompt)) this.#numDivergentPrompts++;
    this.#choices.push({ start: this.#tokenIds.length, choice });
    if (choice.isContext === true) this.addContext(tokenIds);
    else tokenIds.forEach((id, index) => this.#add(id, 1, logprobs[index] ?? Number.NaN));
  }

  build(): TrainingSequence {
    return {
      tokenIds: Int32Array.from(this.#tokenIds),
      lossMask: Uint8Array.from(this.#lossMask),
      oldLogprobs: Float32Array.from(this.#oldLogprobs),
      numChoices: this.#choices.length,
      choices: this.#choices,
      numDivergentPrompts: this.#numDivergentPrompts,
      numBranchTokens: this.#numBranchTokens,
    };
  }

  #add(id: number, mask: number, logprob: number): void {
    this.#tokenIds.push(id);
    this.#lossMask.push(mask);
    this.#oldLogprobs.push(logprob);
  }

  #equals(tokenIds: Int32Array): boolean {
    return tokenIds.length === this.#tokenIds.length && this.#sharedLength(tokenIds) === tokenIds.length;
  }

  #sharedLength(tokenIds: Int32Array): number {
    const most = Math.min(tokenIds.length, this.#tokenIds.length);
    let length = 0;
    while (length < most && tokenIds[length] === this.#tokenIds[length]) length += 1;
    return length;
  }
}

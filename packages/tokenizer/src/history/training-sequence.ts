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
  /** Digest of the adapter that it was drawn with; null = the base model. Default: not known. */
  policyDigest?: string | null;
  /** Whether it names a record that is not there. Default false. */
  isRecordLost?: boolean;
  /** Whether its tokens are context, and not trained. Default false. */
  isContext?: boolean;
  /** Why it ended, as inference said: `length` when it was cut off. Default: not known. */
  finishReason?: string;
  /** Name of its record: choices that name one are one sample. Default: not known. */
  recordId?: string;
  /** Id of its answer and its index there, as far as they are known: choices of two places are two samples. */
  answerPlace?: string;
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
  /**
   * A sequence that is not the first of its conversation is a branch: tokens of its first prompt behind what it shares with a sequence before
   * it, which are computed for it alone. Null: it is the first.
   */
  numBranchTokens: number | null;
}

/** A training sequence being put together, turn by turn. */
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
    // The latest share the most as a rule; one that shares more has the next token too.
    const longest = others.reduceRight((most, other) => {
      const mayShareMore = other.#tokenIds.length > most && other.#tokenIds[most] === prompt[most];
      return mayShareMore ? Math.max(most, other.#sharedLength(prompt)) : most;
    }, 0);
    builder.#numBranchTokens = prompt.length - longest;
    return builder;
  }

  /** Text of the template: context only. */
  addContext(tokenIds: Int32Array): void {
    for (const id of tokenIds) this.#add(id, 0, Number.NaN);
  }

  /** The ids of `prompt` behind all that stands here; null where it does not begin so. */
  restOf(prompt: Int32Array): Int32Array | null {
    const length = this.#tokenIds.length;
    return this.#sharedLength(prompt) === length ? prompt.subarray(length) : null;
  }

  /** @param inferencePrompt the ids the choice was sampled after, compared with what stands here */
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

  /** How many tokens both begin with. */
  #sharedLength(tokenIds: Int32Array): number {
    const most = Math.min(tokenIds.length, this.#tokenIds.length);
    let length = 0;
    while (length < most && tokenIds[length] === this.#tokenIds[length]) length += 1;
    return length;
  }
}

import { supervisedTurns, type TemplateMessage, type TrainingSequence } from '@trainyard/tokenizer';
import type { ChatTemplate } from '@trainyard/tokenizer';
import { TrainerError } from '../contract/errors.ts';
import { inTurns } from '../rollouts/in-turns.ts';
import { withTrainedEnd } from '../rollouts/training-sequences.ts';
import type { SftConfig } from './sft-config.ts';

/** One line of the data. */
export interface SftExample {
  readonly messages: readonly TemplateMessage[];
  /** Tools for rendering. */
  readonly tools: readonly unknown[] | null;
  /** Default: none. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
}

/** Untrained conversations. */
export type SftDropReason = 'too_long' | 'no_trainable_tokens';

export type RenderedExample =
  | { readonly kind: 'sequences'; readonly sequences: readonly TrainingSequence[] }
  | { readonly kind: 'dropped'; readonly reason: SftDropReason };

/**
 * @param name for messages, with the 1-based number of the example in its data
 * @throws {TrainerError} `trainer.render_failed`; the abort reason of `signal`
 */
export async function renderExample(
  { messages, tools, templateVariables = {} }: SftExample,
  name: string,
  template: ChatTemplate,
  { config, signal }: { config: Pick<SftConfig, 'assistantTurns' | 'maxSequenceLength'>; signal: AbortSignal },
): Promise<RenderedExample> {
  let sequences: TrainingSequence[];
  try {
    const { assistantTurns } = config;
    const turns = supervisedTurns(template, messages, { tools, templateVariables, assistantTurns });
    sequences = (await inTurns(turns, signal)).flatMap(withTrainedEnd);
  } catch (cause) {
    signal.throwIfAborted();
    throw new TrainerError('trainer.render_failed', `${name}: ${(cause as Error).message}`, { cause });
  }
  if (sequences.length === 0) return { kind: 'dropped', reason: 'no_trainable_tokens' };
  const isTooLong = sequences.some(({ tokenIds }) => tokenIds.length > config.maxSequenceLength);
  return isTooLong ? { kind: 'dropped', reason: 'too_long' } : { kind: 'sequences', sequences };
}

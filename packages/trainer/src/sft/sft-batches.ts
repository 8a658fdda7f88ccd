import { setImmediate } from 'node:timers/promises';
import type { ChatTemplate, TrainingSequence } from '@trainyard/tokenizer';
import { packRows, rowLength, type TrainingRow } from '../packing/pack.ts';
import type { SftConfig } from './sft-config.ts';
import { renderExample, type SftDropReason, type SftExample } from './sft-example.ts';

/** One gradient step. */
export interface SftBatch {
  readonly sequences: readonly TrainingSequence[];
  /** Trained and dropped conversations. */
  readonly numTrajectories: number;
  readonly numDropped: number;
}

/** Report on the data. */
export interface SftReport {
  readonly numTrajectories: number;
  readonly dropped: Readonly<Partial<Record<SftDropReason, number>>>;
  readonly numTokens: number;
  readonly numTrainableTokens: number;
}

/** Cancellation takes effect between turns of the event loop. */
const EXAMPLES_PER_TURN = 32;

/**
 * Batches of token sequences, in order; the last may be short. Conversations that are too long or have nothing
 * to train are dropped from their batch, which keeps its place.
 *
 * @throws {TrainerError} `trainer.render_failed` with the conversation; the abort reason of `signal`
 */
export async function sftBatches(
  examples: Iterable<SftExample> | AsyncIterable<SftExample>,
  { template, config, signal }: { template: ChatTemplate; config: SftConfig; signal: AbortSignal },
): Promise<{ batches: SftBatch[]; report: SftReport }> {
  const batches: { sequences: TrainingSequence[]; numTrajectories: number; numDropped: number }[] = [];
  const dropped: Partial<Record<SftDropReason, number>> = {};
  let numTrajectories = 0;
  for await (const example of examples) {
    if (numTrajectories % EXAMPLES_PER_TURN === 0) await setImmediate();
    signal.throwIfAborted();
    if (numTrajectories % config.batchSize === 0) batches.push({ sequences: [], numTrajectories: 0, numDropped: 0 });
    const batch = batches.at(-1)!;
    numTrajectories++;
    const rendered = await renderExample(example, numTrajectories, template, { config, signal });
    if (rendered.kind === 'dropped') {
      batch.numDropped++;
      dropped[rendered.reason] = (dropped[rendered.reason] ?? 0) + 1;
    } else {
      batch.numTrajectories++;
      batch.sequences.push(...rendered.sequences);
    }
  }
  const sequences = batches.flatMap((batch) => batch.sequences);
  const numTokens = sequences.reduce((total, { tokenIds }) => total + tokenIds.length, 0);
  const numTrainableTokens = sequences.reduce((total, { lossMask }) => total + lossMask.filter(Boolean).length, 0);
  return { batches, report: { numTrajectories, dropped, numTokens, numTrainableTokens } };
}

/** Rows: as few as hold the batch, or without `packing` one per sequence. */
export function batchRows({ sequences }: SftBatch, config: SftConfig): TrainingRow[] {
  const members = sequences.map((sequence) => ({
    ...sequence,
    groupIndex: 0,
    trajectoryIndex: 0,
    sequenceIndex: 0,
    advantage: 1,
    weight: 1,
  }));
  const longest = members.reduce((max, { tokenIds }) => Math.max(max, tokenIds.length), 0);
  const maxTokens = rowLength(longest, { ...config, packedSequenceLength: null });
  // The order of sequences and rows affects only rounding, so any fixed seed works.
  if (config.packing) return packRows(members, maxTokens, 0);
  return members.flatMap((member) => packRows([member], maxTokens, 0));
}

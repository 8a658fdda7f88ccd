import { setImmediate } from 'node:timers/promises';
import type { ChatTemplate, TrainingSequence } from '@trainyard/tokenizer';
import { packRows, rowLength, type TrainingRow } from '../packing/pack.ts';
import { type HeldOutSource, isHeldOutLine } from './held-out.ts';
import type { SftConfig } from './sft-config.ts';
import { type RenderedExample, renderExample, type SftDropReason, type SftExample } from './sft-example.ts';

/** One gradient step. */
export interface SftBatch {
  readonly sequences: readonly TrainingSequence[];
  /** Trained and dropped conversations. */
  readonly numTrajectories: number;
  readonly numDropped: number;
}

/** Report on the trained data, or on the held-out ones. */
export interface SftReport {
  readonly numTrajectories: number;
  readonly dropped: Readonly<Partial<Record<SftDropReason, number>>>;
  readonly numTokens: number;
  readonly numTrainableTokens: number;
}

/** Token sequences of a job. */
export interface SftData {
  readonly batches: readonly SftBatch[];
  readonly report: SftReport;
  /** Null without held-out data. */
  readonly heldOut: { readonly batch: SftBatch; readonly report: SftReport } | null;
}

/** Cancellation takes effect between turns of the event loop. */
const EXAMPLES_PER_TURN = 32;

/**
 * Batches of token sequences, in order; the last may be short. Conversations that are too long or have nothing
 * to train are dropped from their batch, which keeps its place. Held-out ones are in no batch.
 *
 * @throws {TrainerError} `trainer.render_failed` with the conversation; the abort reason of `signal`
 */
export async function sftBatches(
  examples: Iterable<SftExample> | AsyncIterable<SftExample>,
  {
    template,
    config,
    heldOut = null,
    signal,
  }: { template: ChatTemplate; config: SftConfig; heldOut?: HeldOutSource | null; signal: AbortSignal },
): Promise<SftData> {
  const trained = new BatchList(config.batchSize);
  const measured = new BatchList(Infinity);
  const isHeldOut = isHeldOutLine(heldOut, config);
  let numLines = 0;
  for await (const example of examples) {
    if (numLines % EXAMPLES_PER_TURN === 0) await setImmediate();
    signal.throwIfAborted();
    const isMeasured = isHeldOut(numLines);
    const isOfOwnData = isMeasured && heldOut?.from === 'own_data';
    const name = isOfOwnData
      ? `held-out conversation ${numLines - heldOut.numLines + 1}`
      : `conversation ${numLines + 1}`;
    (isMeasured ? measured : trained).add(await renderExample(example, name, template, { config, signal }));
    numLines++;
  }
  const [batch] = measured.batches;
  return {
    batches: trained.batches,
    report: trained.report(),
    heldOut: batch === undefined ? null : { batch, report: measured.report() },
  };
}

/** Conversations in their order, divided into batches. */
class BatchList {
  readonly batches: { sequences: TrainingSequence[]; numTrajectories: number; numDropped: number }[] = [];
  readonly #batchSize: number;
  readonly #dropped: Partial<Record<SftDropReason, number>> = {};
  #numTrajectories = 0;

  constructor(batchSize: number) {
    this.#batchSize = batchSize;
  }

  add(rendered: RenderedExample): void {
    if (this.#numTrajectories % this.#batchSize === 0)
      this.batches.push({ sequences: [], numTrajectories: 0, numDropped: 0 });
    const batch = this.batches.at(-1)!;
    this.#numTrajectories++;
    if (rendered.kind === 'dropped') {
      batch.numDropped++;
      this.#dropped[rendered.reason] = (this.#dropped[rendered.reason] ?? 0) + 1;
    } else {
      batch.numTrajectories++;
      batch.sequences.push(...rendered.sequences);
    }
  }

  report(): SftReport {
    const sequences = this.batches.flatMap((batch) => batch.sequences);
    const numTokens = sequences.reduce((total, { tokenIds }) => total + tokenIds.length, 0);
    const numTrainableTokens = sequences.reduce((total, { lossMask }) => total + lossMask.filter(Boolean).length, 0);
    return { numTrajectories: this.#numTrajectories, dropped: this.#dropped, numTokens, numTrainableTokens };
  }
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

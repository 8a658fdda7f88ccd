/** Held-out conversations of a supervised job: measured with the training loss, and never trained. */
import { refusal } from '../config/config-checks.ts';
import type { StepParts } from '../job/gradient-step.ts';
import { crossEntropy } from '../objectives/cross-entropy.ts';
import { requireFinite } from '../optimizer/weight-update.ts';
import { seededRandom, shuffled } from '../packing/random.ts';
import type { TrainingRow } from '../packing/pack.ts';
import type { SftConfig } from './sft-config.ts';

/**
 * Place of the held-out lines in the data of a job, of which the first `numLines` are those of the training
 * file: drawn from these by `held_out_fraction`, or all lines after them.
 */
export interface HeldOutSource {
  readonly from: 'training_data' | 'own_data';
  readonly numLines: number;
}

type HeldOutSettings = Pick<SftConfig, 'heldOutFraction' | 'heldOutSeed' | 'heldOutExamples'>;

/** Rows of one forward pass without gradients. */
const ROWS_AT_A_TIME = 8;
/** Measurements of a job by default, without the one at its start. */
const STANDARD_MEASUREMENTS = 10;

/**
 * Indices of the lines that `held_out_fraction` holds out: round(fraction · lines), at least 1, at most
 * `held_out_examples`. They depend only on the arguments.
 *
 * @throws {TrainerError} `trainer.config_invalid` if no line is left to train
 */
export function heldOutLines(numLines: number, settings: HeldOutSettings): ReadonlySet<number> {
  const { heldOutFraction, heldOutSeed, heldOutExamples } = settings;
  if (heldOutFraction === null) return new Set();
  const count = Math.min(heldOutExamples, Math.max(1, Math.round(heldOutFraction * numLines)));
  if (count >= numLines)
    throw refusal(
      'held_out_fraction',
      `\`held_out_fraction\` ${heldOutFraction} leaves nothing to train of ${numLines} ${numLines === 1 ? 'conversation' : 'conversations'}`,
    );
  const lines = Array.from({ length: numLines }, (_, line) => line);
  return new Set(shuffled(lines, seededRandom(heldOutSeed)).slice(0, count));
}

/** @returns the test of a line's index in the stored data */
export function isHeldOutLine(source: HeldOutSource | null, settings: HeldOutSettings): (line: number) => boolean {
  if (source === null) return () => false;
  if (source.from === 'own_data') return (line) => line >= source.numLines;
  const lines = heldOutLines(source.numLines, settings);
  return (line) => lines.has(line);
}

/** Measured at the start, every `held_out_every` gradient steps, and at the end. */
export function isMeasuredAfter(
  numTaken: number,
  numSteps: number,
  { heldOutEvery }: Pick<SftConfig, 'heldOutEvery'>,
): boolean {
  const every = heldOutEvery ?? Math.max(1, Math.ceil(numSteps / STANDARD_MEASUREMENTS));
  return numTaken % every === 0 || numTaken === numSteps;
}

/**
 * Mean of −log p over the trained tokens of all rows, in nats: the loss of a gradient step on them.
 *
 * @throws {TrainerError} `trainer.non_finite`; errors of the learner
 */
export async function heldOutLoss(
  rows: readonly TrainingRow[],
  { learner, signal }: StepParts,
): Promise<{ readonly loss: number; readonly numTokens: number }> {
  const numTokens = rows.reduce((total, { row }) => total + row.targets.length, 0);
  let loss = 0;
  for (let first = 0; first < rows.length; first += ROWS_AT_A_TIME) {
    const some = rows.slice(first, first + ROWS_AT_A_TIME).map(({ row }) => row);
    for (const { logprobs } of await learner.forward(some, { signal })) loss += crossEntropy(logprobs, numTokens).loss;
  }
  requireFinite('the held-out loss', [loss]);
  return { loss, numTokens };
}

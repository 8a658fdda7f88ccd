import { TrainerError } from '../contract/errors.ts';
import type { PackedRow } from '../model/policy-model.ts';
import type { TrainingRow } from '../packing/pack.ts';
import type { LearnerForwardOptions } from '../learner/learner-session.ts';
import type { TrainingJob, TrainingParts } from './training-job.ts';

/** One token in eight of all rows, but at least up to a sampled token. Half as many sampled tokens are compared. */
const ONE_IN = 8;
const MOST_TOKENS = 512;
const LEAST_TOKENS = 64;

/**
 * Mean of log p_sampler - log p_base over a sample of the sampled tokens: KL(sampler ‖ base) per token, in nats.
 * It reveals a policy that earns rewards with text improbable for the base model.
 *
 * Costs a forward pass without adapter and gradients over the beginning of a row: an eighth of the job's tokens,
 * at most about 512, a tenth of a gradient step on a full row of 2,048.
 *
 * @param numTokens of all rows of the job
 * @returns `kl_base` and `seconds_kl_base`; empty if no sampled token had a log-probability, or the learner
 * cannot compute the base model
 */
export async function baseDistance(
  { row, sampledLogprobs }: Pick<TrainingRow, 'row' | 'sampledLogprobs'>,
  numTokens: number,
  { learner, signal }: Pick<TrainingParts, 'learner' | 'signal'>,
): Promise<Record<string, number>> {
  if (learner.capabilities.reference === 'none') return {};
  const started = performance.now();
  const distance = await distanceTo('base', { row, sampledLogprobs }, numTokens, { learner, signal });
  return distance === null ? {} : { kl_base: distance, seconds_kl_base: (performance.now() - started) / 1000 };
}

/**
 * Distance from the weights that training on rollouts started with, as in `baseDistance`: those after supervised
 * training, of an initial checkpoint, or of the base model.
 *
 * @param known distance to the base model, if known
 * @returns `kl_start`; empty if these weights were deleted, or the learner cannot compute them
 */
export async function startDistance(
  { startFrom, beganFrom = 'base' }: Pick<TrainingJob, 'startFrom' | 'beganFrom'>,
  known: {
    readonly distance: Readonly<Record<string, number>>;
    readonly row: Pick<TrainingRow, 'row' | 'sampledLogprobs'>;
    readonly numTokens: number;
  },
  { learner, signal }: Pick<TrainingParts, 'learner' | 'signal'>,
): Promise<Record<string, number>> {
  if (beganFrom === 'gone') return {};
  if (beganFrom === 'base') {
    const { kl_base: distance } = known.distance;
    return distance === undefined ? {} : { kl_start: distance };
  }
  if (beganFrom.version === startFrom) return { kl_start: 0 };
  if (learner.capabilities.reference !== 'versions') return {};
  try {
    const distance = await distanceTo(beganFrom, known.row, known.numTokens, { learner, signal });
    return distance === null ? {} : { kl_start: distance };
  } catch (error) {
    // The weights were deleted: a metric must not fail a job.
    if (error instanceof TrainerError && error.code === 'trainer.checkpoint_unreadable') return {};
    throw error;
  }
}

/** Null if no sampled token had a log-probability. */
async function distanceTo(
  under: NonNullable<LearnerForwardOptions['under']>,
  { row, sampledLogprobs }: Pick<TrainingRow, 'row' | 'sampledLogprobs'>,
  numTokens: number,
  { learner, signal }: Pick<TrainingParts, 'learner' | 'signal'>,
): Promise<number | null> {
  const size = Math.ceil(Math.min(MOST_TOKENS, Math.max(LEAST_TOKENS, numTokens / ONE_IN)));
  const chosen = sampleOf(row, sampledLogprobs, size);
  if (chosen.length === 0) return null;
  const [output] = await learner.forward([partOf(row, chosen)], { under, signal });
  const { logprobs } = output!;
  const total = chosen.reduce((sum, i, place) => sum + sampledLogprobs[i]! - logprobs[place]!, 0);
  if (!Number.isFinite(total))
    throw new TrainerError(
      'trainer.non_finite',
      `a log-probability under ${under === 'base' ? 'the base model' : 'the first weights'} is not finite`,
    );
  return total / chosen.length;
}

/** Trained tokens near the beginning with a sampled log-probability. */
function sampleOf({ sources }: PackedRow, sampledLogprobs: Float32Array, size: number): number[] {
  const known = Array.from(sources.keys()).filter((i) => !Number.isNaN(sampledLogprobs[i]));
  const first = known.reduce((min, i) => Math.min(min, sources[i]!), Infinity);
  const end = Math.max(size, first + size / 2);
  return known.filter((i) => sources[i]! < end).slice(0, size / 2);
}

/** Row up to the last token that predicts a chosen one; parents come before their children. */
function partOf(row: PackedRow, chosen: readonly number[]): PackedRow {
  const length = 1 + chosen.reduce((max, i) => Math.max(max, row.sources[i]!), 0);
  const { replay = null } = row;
  return {
    tokenIds: row.tokenIds.subarray(0, length),
    positions: row.positions.subarray(0, length),
    parents: row.parents.subarray(0, length),
    sources: Int32Array.from(chosen, (i) => row.sources[i]!),
    targets: Int32Array.from(chosen, (i) => row.targets[i]!),
    replay:
      replay === null
        ? null
        : {
            ...replay,
            temperatures: Float64Array.from(chosen, (i) => replay.temperatures[i]!),
            keptSet: Int32Array.from(chosen, (i) => replay.keptSet[i]!),
            shift: Int32Array.from(chosen, (i) => replay.shift[i]!),
            numGenerated: Int32Array.from(chosen, (i) => replay.numGenerated[i]!),
          },
  };
}

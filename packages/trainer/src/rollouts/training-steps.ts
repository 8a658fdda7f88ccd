/** Assignment of histories to gradient steps, and the weights of their tokens. */
import { trajectoryWeights } from './advantage.ts';
import type { TrainingConfig } from '../config/training-config.ts';
import { packRows, type CreditedSequence, type TrainingRow } from '../packing/pack.ts';
import { seededRandom, shuffled } from '../packing/random.ts';

export interface StepSequence extends CreditedSequence {
  readonly numTokens: number;
  /** Count over all histories of the trajectory, including those dropped for their length. */
  readonly numTrajectoryTokens: number;
  /** False: only terms of the loss other than the rewards train it. */
  readonly isRewarded: boolean;
}

/** Includes untrained trajectories with an advantage of 0. */
export interface GroupSize {
  readonly numTrajectories: number;
  /** Sampled tokens that fit. */
  readonly numTokens: number;
}

export interface TrainingStep {
  readonly rows: readonly TrainingRow[];
  /** All rows. */
  readonly numTokens: number;
  readonly numTrajectories: number;
  readonly numHistories: number;
}

export type StepConfig = Pick<
  TrainingConfig,
  'gradientSteps' | 'stepPerRow' | 'lossAggregation' | 'lossAggregationLength'
>;

/** Trajectories per step by default. */
const TRAJECTORIES_PER_STEP = 16;
const MAX_DEFAULT_STEPS = 4;

/**
 * The requested number, or one per 16 trajectories, at most 4. Never more than groups, because a group is
 * compared within itself: its parts pull in opposite directions.
 */
export function numStepsFor(
  config: Pick<TrainingConfig, 'gradientSteps'>,
  { numGroups, numTrajectories }: { numGroups: number; numTrajectories: number },
): number {
  const bySize = Math.min(Math.ceil(numTrajectories / TRAJECTORIES_PER_STEP), MAX_DEFAULT_STEPS);
  return Math.min(config.gradientSteps ?? bySize, numGroups);
}

/**
 * Deals whole groups to gradient steps and packs each step's histories into rows. With `stepPerRow` the rows of
 * the whole job are the steps.
 *
 * Groups are shuffled, and each goes to the step with the fewest trajectories so far. Groups that rewards train
 * are dealt first, so the others do not change the steps of the policy term.
 *
 * @param sequences in order of their groups, none longer than `maxTokens`
 * @param groupSizes by group index, for every group of `sequences`
 * @param seed of the shuffles
 */
export function trainingSteps(
  sequences: readonly StepSequence[],
  parts: { groupSizes: ReadonlyMap<number, GroupSize>; maxTokens: number; config: StepConfig; seed: number },
): TrainingStep[] {
  const { groupSizes, maxTokens, config, seed } = parts;
  if (config.stepPerRow) return rowSteps(sequences, parts);
  return dealtGroups(sequences, config, seed).map((members, index) => {
    const weights = stepWeights(members, sizeOf(members, groupSizes), config);
    const factor = policyFactor(members, weights, groupSizes, config);
    const weighted = members.map((member, i) => ({
      ...member,
      weight: weights[i]!,
      advantage: factor * member.advantage,
    }));
    return stepOf(packRows(weighted, maxTokens, seed + index), {
      numTrajectories: countTrajectories(members),
      numHistories: weighted.length,
    });
  });
}

/** Histories by step. */
function dealtGroups(sequences: readonly StepSequence[], config: StepConfig, seed: number): StepSequence[][] {
  const groups = [...Map.groupBy(sequences, ({ groupIndex }) => groupIndex).values()];
  const [learning, others] = [groups.filter(isLearning), groups.filter((members) => !isLearning(members))];
  // A requested number counts all groups; the default counts those that rewards train, if any.
  const counted = config.gradientSteps === null && learning.length > 0 ? learning.map(rewardedOf) : groups;
  const numSteps = numStepsFor(config, {
    numGroups: counted.length,
    numTrajectories: totalOf(counted, countTrajectories),
  });
  const steps = Array.from({ length: numSteps }, () => ({ members: [] as StepSequence[], numTrajectories: 0 }));
  const deal = (dealt: readonly StepSequence[][], sizeOfGroup: (members: readonly StepSequence[]) => number): void => {
    for (const step of steps) step.numTrajectories = sizeOfGroup(step.members);
    for (const group of shuffled(dealt, seededRandom(seed))) {
      const smallest = steps.reduce((least, step) => (step.numTrajectories < least.numTrajectories ? step : least));
      smallest.members.push(...group);
      smallest.numTrajectories += sizeOfGroup(group);
    }
  };
  deal(learning, (members) => countTrajectories(rewardedOf(members)));
  deal(others, countTrajectories);
  return steps.map(({ members }) => members);
}

const isLearning = (members: readonly StepSequence[]): boolean => members.some(({ isRewarded }) => isRewarded);

/** The weights are those of the job. The policy term has its own denominators here, too. */
function rowSteps(
  sequences: readonly StepSequence[],
  { maxTokens, seed }: Pick<Parameters<typeof trainingSteps>[1], 'maxTokens' | 'seed'>,
): TrainingStep[] {
  const rows = packRows(sequences, maxTokens, seed);
  const rewarded = rewardedOf(sequences);
  if (rewarded.length === sequences.length || rewarded.length === 0) return rows.map((row) => stepOf([row], row));
  const weightFactor = trajectoryWeights(rewarded)![0]! / rewarded[0]!.weight;
  return rows.map((row) => {
    const numRewarded = totalOf(rewardedOf(row.members as readonly StepSequence[]), numTokensOf);
    if (numRewarded === 0) return stepOf([row], row);
    const factor = (weightFactor * row.row.targets.length) / numRewarded;
    const members = row.members.map((member) => ({ ...member, advantage: factor * member.advantage }));
    return stepOf([{ ...row, members, advantages: row.advantages.map((advantage) => factor * advantage) }], row);
  });
}

/**
 * Factor of the advantages of a step. The policy term is a mean over the histories that rewards train; the other
 * terms are means over all histories.
 *
 * @param weights of all members
 * @returns 1 if all histories are rewarded, or none
 */
function policyFactor(
  members: readonly StepSequence[],
  weights: readonly number[],
  groupSizes: ReadonlyMap<number, GroupSize>,
  config: StepConfig,
): number {
  const rewarded = rewardedOf(members);
  if (rewarded.length === members.length || rewarded.length === 0) return 1;
  // All histories have the same ratio between the two weights.
  const own = stepWeights(rewarded, sizeOf(rewarded, groupSizes), config)[0]! / totalOf(rewarded, numTokensOf);
  return own / (weights[members.indexOf(rewarded[0]!)]! / totalOf(members, numTokensOf));
}

const rewardedOf = (members: readonly StepSequence[]): readonly StepSequence[] =>
  members.filter(({ isRewarded }) => isRewarded);

const numTokensOf = ({ numTokens }: StepSequence): number => numTokens;

const totalOf = <Item>(items: readonly Item[], valueOf: (item: Item) => number): number =>
  items.reduce((total, item) => total + valueOf(item), 0);

/**
 * Weight of each trained token of a history, such that Σ weight · loss / N over the step's N trained tokens is,
 * with T_i the tokens of trajectory i and M trajectories in the step's groups:
 *
 * - `normalized_trajectory`: mean over trajectories of the mean over their tokens, without those with advantage
 *   0; advantages are scaled over the job. ART's.
 * - `trajectory`: (1/M) Σ_i (1/T_i) Σ_t loss, M including those with advantage 0. GRPO.
 * - `token`: Σ_i Σ_t loss / Σ_i T_i, T_i including those with advantage 0. DAPO.
 * - `constant`: Σ_i Σ_t loss / (M · length). Dr. GRPO.
 *
 * @see GRPO: arXiv 2402.03300, equation 3; DAPO: arXiv 2503.14476, equation 8; Dr. GRPO: arXiv 2503.20783,
 * section 3.1
 */
function stepWeights(
  members: readonly Pick<StepSequence, 'numTokens' | 'numTrajectoryTokens'>[],
  size: GroupSize,
  { lossAggregation, lossAggregationLength }: Pick<TrainingConfig, 'lossAggregation' | 'lossAggregationLength'>,
): number[] {
  const numTokens = members.reduce((total, member) => total + member.numTokens, 0);
  switch (lossAggregation) {
    case 'normalized_trajectory':
      return trajectoryWeights(members)!;
    case 'trajectory':
      return members.map((member) => numTokens / (size.numTrajectories * member.numTrajectoryTokens));
    case 'token':
      return members.map(() => numTokens / size.numTokens);
    case 'constant':
      return members.map(() => numTokens / (size.numTrajectories * lossAggregationLength));
    default:
      return lossAggregation satisfies never;
  }
}

function sizeOf(members: readonly StepSequence[], groupSizes: ReadonlyMap<number, GroupSize>): GroupSize {
  const sizes = [...new Set(members.map(({ groupIndex }) => groupIndex))].map((index) => groupSizes.get(index)!);
  return {
    numTrajectories: sizes.reduce((total, size) => total + size.numTrajectories, 0),
    numTokens: sizes.reduce((total, size) => total + size.numTokens, 0),
  };
}

function countTrajectories(members: readonly CreditedSequence[]): number {
  return new Set(members.map((member) => `${member.groupIndex} ${member.trajectoryIndex}`)).size;
}

function stepOf(
  rows: readonly TrainingRow[],
  { numTrajectories, numHistories }: Pick<TrainingStep, 'numTrajectories' | 'numHistories'>,
): TrainingStep {
  const numTokens = rows.reduce((total, { row }) => total + row.targets.length, 0);
  return { rows, numTokens, numTrajectories, numHistories };
}

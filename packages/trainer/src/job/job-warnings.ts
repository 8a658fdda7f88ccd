import { fieldsThatChange } from '@trainyard/protocol/fields';
import type { HistoryItem } from '@trainyard/tokenizer';
import type { LoraConfig } from '@trainyard/transformer';
import type { ComputedConfig, TrainingConfig } from '../config/training-config.ts';
import type { JobWarning, WarningCode } from './job-warning.ts';
import { learningRateWarnings } from './learning-rate-rule.ts';
import type { LearnerModel } from '../learner/learner-session.ts';
import { POLICY_OBJECTIVES } from '../objectives/policy-objectives.ts';
import type { SamplingReport, UnreplayedChange, UnreplayedReason } from '../packing/choice-replay.ts';
import { hasGradient, noGradient, nothingToTrain } from './nothing-trained.ts';
import type { TrainerEvent, TrainingStartedData } from './training-job.ts';
import type { SequenceReport } from '../rollouts/sequence-report.ts';
import type { TrajectoryGroup } from '../rollouts/trajectory.ts';

/** Share of groups from which on equal rewards are not an accident. */
const MANY_EQUAL_GROUPS = 0.5;
/** Share of replies above which the policy learns to be short, or never to end. */
const MANY_CUT_OFF = 0.1;
/** Nats per token: one token in a hundred is still a choice between two, the others are certain. */
const LOW_ENTROPY = 0.01;
/**
 * Nats per token: each is e times as likely as under the weights that rollouts started with, in the geometric
 * mean.
 */
const FAR_FROM_BASE = 1;
/**
 * Nats per token, of `kl_sampler`: jobs whose rewards rose moved by 0.05 to 0.25, those whose rewards fell by 0.95 to 2.9
 * (docs/lab/experiments.md).
 */
const FAR_FROM_SAMPLER = 0.5;
/**
 * Nats per token; standard errors; tokens: smaller deviations are chance, or come from selecting the trained
 * tokens.
 */
const SHARPER = 0.03;
const SURPRISAL_ERRORS = 6;
const SURPRISAL_TOKENS = 64;
/** Ratios of whole sequences are means over their tokens, within 1e-3 of 1. */
const WIDEST_SEQUENCE_CLIP = 0.01;

/** Known before the first gradient step. */
export function startWarnings(
  groups: readonly TrajectoryGroup[],
  {
    config,
    architecture,
    lora,
    report,
  }: {
    config: ComputedConfig;
    architecture: Pick<LearnerModel, 'name' | 'hiddenSize'>;
    lora: Pick<LoraConfig, 'alpha'>;
    report: Pick<SequenceReport, 'sampling' | 'numCopiedChoices' | 'numCopiedTokens'>;
  },
): JobWarning[] {
  return [
    ...learningRateWarnings([config.learningRate], architecture, lora),
    ...equalRewardWarnings(groups),
    ...cutOffWarnings(groups),
    ...truncationWarnings(config),
    ...samplingWarnings(report.sampling),
    ...(config.trainCopies ? [] : copyWarnings(report)),
  ];
}

function copyWarnings({
  numCopiedChoices: numChoices,
  numCopiedTokens: numTokens,
}: Pick<SequenceReport, 'numCopiedChoices' | 'numCopiedTokens'>): JobWarning[] {
  if (numChoices === 0) return [];
  return [
    {
      code: 'copied_choices',
      message: `${numChoices} choices (${numTokens} tokens) were sent more than once, in several histories or trajectories: each sampled token is trained once`,
      value: numChoices,
      suggestion:
        'send each choice once, and earlier turns of later histories as messages; `train_copies` trains every copy, as ART does',
    },
  ];
}

/** Choices drawn differently from their training. */
function samplingWarnings({ numChoices, unreplayed, refused, changes }: SamplingReport): JobWarning[] {
  const { unknown = 0, record_gone: numGone = 0, ...others } = unreplayed;
  const reasons = reasonsOf(others);
  const warnings = Object.entries(CHANGES).flatMap(([change, { code, what }]): JobWarning[] => {
    const count = changes[change as UnreplayedChange] ?? 0;
    if (count === 0) return [];
    return [
      {
        code,
        message: `${count} of ${numChoices} choices were sampled ${what}, but are trained as if sampled from the plain model distribution (not replayed: ${reasons})`,
        value: count,
        suggestion: 'sample with `temperature` 1 and without truncation; shorter replies keep records small',
      },
    ];
  });
  const numRefused = Object.values(refused).reduce((sum, count) => sum + count, 0);
  if (numRefused > 0)
    warnings.push({
      code: 'sampling_refused',
      message: `${numRefused} of ${numChoices} choices are not trained, because their sampling distribution is unknown (${reasonsOf(refused)})`,
      value: numRefused,
      suggestion:
        'start vLLM with `--logprobs-mode processed_logprobs`, or sample without truncation; send choices within the lifetime of their records (`--choice-record-hours`); or set `allow_training_with_unknown_sampling`',
    });
  const numUnknown = unknown + numGone;
  if (numUnknown > 0)
    warnings.push({
      code: 'sampling_unknown',
      message: `${numUnknown} of ${numChoices} choices have no sampling record and are trained as if sampled at temperature 1`,
      value: numUnknown,
      suggestion:
        'send choices unchanged, with `record_id`, within the lifetime of records (`--choice-record-hours`); or sample at temperature 1 without truncation, constraint or penalties',
    });
  return warnings;
}

const REASONS: Readonly<Record<UnreplayedReason, string>> = {
  greedy: 'greedy',
  too_large: 'with too large a record',
  undetermined: 'from a server that did not report enough',
  unknown: 'without a record',
  record_gone: 'whose record is gone',
  policy_gone: 'whose checkpoint is gone',
  unreadable: 'with an unreadable record',
  unsupported: 'on a learner without replay',
};

function reasonsOf(counts: SamplingReport['refused']): string {
  return Object.entries(counts)
    .map(([reason, count]) => `${count} ${REASONS[reason as UnreplayedReason]}`)
    .join(', ');
}

/** Fields that truncate, as in `top_p`, `top_k` or `min_p`. */
function listed(conjunction: 'and' | 'or'): string {
  const fields = fieldsThatChange('truncation').map((field) => `\`${field}\``);
  return `${fields.slice(0, -1).join(', ')} ${conjunction} ${fields.at(-1)}`;
}

const CHANGES: Readonly<Record<UnreplayedChange, { code: WarningCode; what: string }>> = {
  temperature: { code: 'temperature_not_replayed', what: 'at another `temperature` than 1' },
  truncation: { code: 'truncation_not_replayed', what: `with ${listed('or')}` },
  constraint: { code: 'constraint_not_replayed', what: 'under a constraint or from allowed tokens' },
  penalties: { code: 'penalties_not_replayed', what: 'with `logit_bias` or penalties' },
};

function equalRewardWarnings(groups: readonly TrajectoryGroup[]): JobWarning[] {
  const comparable = groups.filter(({ trajectories }) => trajectories.length > 1);
  const isEqual = ({ trajectories }: TrajectoryGroup): boolean =>
    trajectories.every(({ reward }) => reward === trajectories[0]!.reward);
  const numEqual = comparable.filter(isEqual).length;
  const share = numEqual / comparable.length;
  if (!(share >= MANY_EQUAL_GROUPS)) return [];
  return [
    {
      code: 'equal_reward_groups',
      message: `${numEqual} of ${comparable.length} groups have equal rewards and give no training signal`,
      value: share,
      suggestion: 'use scenarios that are solved sometimes, more rollouts per group, or a reward with more values',
    },
  ];
}

function truncationWarnings({
  truncatedImportanceSampling: limit,
  precalculateLogprobs,
}: TrainingConfig): JobWarning[] {
  if (limit === 0 || precalculateLogprobs) return [];
  return [
    {
      code: 'truncated_importance_sampling_off',
      message: `\`truncated_importance_sampling\` (${limit}) has no effect: without recomputed log-probabilities the importance ratio already compares with the sampler, and a second factor would count it twice`,
      value: limit,
      suggestion:
        'set `precalculate_logprobs`, so that the ratio compares trainer policies and this setting corrects for the sampler; or remove it',
    },
  ];
}

function cutOffWarnings(groups: readonly TrajectoryGroup[]): JobWarning[] {
  const items = groups.flatMap(({ trajectories }) => trajectories.flatMap(({ histories }) => histories));
  const choices = items.flatMap((history) => history.items).filter(isChoice);
  const numCutOff = choices.filter(({ finishReason }) => finishReason === 'length').length;
  const share = numCutOff / choices.length;
  if (!(share > MANY_CUT_OFF)) return [];
  return [
    {
      code: 'replies_cut_off',
      message: `${numCutOff} of ${choices.length} choices were truncated (\`finish_reason\` length)`,
      value: share,
      suggestion:
        'sample with a higher `max_tokens`, ask for shorter replies, or exclude truncated ones from the groups',
    },
  ];
}

const isChoice = (item: HistoryItem): item is Extract<HistoryItem, { kind: 'choice' }> => item.kind === 'choice';

/** Adds the warnings of gradient steps, each once. */
export function withStepWarnings(
  emit: (event: TrainerEvent) => void,
  config: Pick<TrainingConfig, 'lossFunction' | 'importanceSamplingLevel' | 'epsilon' | 'epsilonHigh' | 'entropyCoef'>,
): (event: TrainerEvent) => void {
  const given = new Set<WarningCode>();
  const warn = (warning: JobWarning): void => {
    if (given.has(warning.code)) return;
    given.add(warning.code);
    emit({ kind: 'warning', warning });
  };
  let numSteps = 0;
  let started: TrainingStartedData = {};
  const steps: Readonly<Record<string, number>>[] = [];
  let farthestRatio = 0;
  let hasClipped = false;
  return (event) => {
    emit(event);
    if (event.kind === 'training_started') {
      numSteps = event.numGradientSteps;
      started = event.data;
      if (numSteps === 0) warn(nothingToTrain(started));
    }
    if (event.kind !== 'gradient_step') return;
    const { metrics, index } = event;
    steps.push(metrics);
    if (index === numSteps - 1 && !steps.some(hasGradient)) warn(noGradient(started, steps));
    stepWarnings(metrics, config).forEach(warn);
    // Later steps train a policy that the sampler did not have.
    if (index === 0) sharperWarnings(metrics).forEach(warn);
    hasClipped ||= (metrics['clip_fraction'] ?? 0) > 0;
    farthestRatio = Math.max(farthestRatio, Math.abs((metrics['ratio_max'] ?? 1) - 1));
    movementWarnings(steps).forEach(warn);
    if (index === numSteps - 1 && !hasClipped) clipWarnings(config, farthestRatio).forEach(warn);
  };
}

function stepWarnings(
  { entropy, kl_start: distance }: Readonly<Record<string, number>>,
  { entropyCoef }: Pick<TrainingConfig, 'entropyCoef'>,
): JobWarning[] {
  const warnings: JobWarning[] = [];
  if (entropy !== undefined && entropy < LOW_ENTROPY)
    warnings.push({
      code: 'entropy_low',
      message: `the entropy of a gradient step is ${entropy.toExponential(1)} nats per token, below ${LOW_ENTROPY}: rollouts will hardly differ`,
      value: entropy,
      suggestion: `if the task is not solved yet, try ${entropyCoef > 0 ? 'a higher' : 'an'} \`entropy_coef\`, a lower \`learning_rate\`, or an earlier step`,
    });
  if (distance !== undefined && distance > FAR_FROM_BASE)
    warnings.push({
      code: 'far_from_base',
      message: `the policy is ${distance.toFixed(2)} nats per token away from the weights at the start of RL training (\`kl_start\`), more than ${FAR_FROM_BASE}`,
      value: distance,
      suggestion:
        'read some rollouts: gibberish may earn rewards; `kl_penalty_coef` or a lower `learning_rate` limits the distance, an earlier step undoes it',
    });
  return warnings;
}

/** Rollouts of an older step are far away from the start on. @param steps so far */
function movementWarnings(steps: readonly Readonly<Record<string, number>>[]): JobWarning[] {
  const [first, last] = [steps[0]!, steps.at(-1)!].map((metrics) => metrics['kl_sampler'] ?? 0) as [number, number];
  const moved = last - first;
  if (!(moved > FAR_FROM_SAMPLER)) return [];
  const numTokens = steps.reduce((sum, metrics) => sum + (metrics['num_tokens_with_gradient'] ?? 0), 0) / steps.length;
  return [
    {
      code: 'far_from_sampler',
      message: `gradient step ${steps.length} trains a policy that is ${moved.toFixed(2)} nats per token further from its rollouts than the first (\`kl_sampler\`), more than ${FAR_FROM_SAMPLER}; a step has ${Math.round(numTokens)} tokens with a gradient`,
      value: moved,
      suggestion:
        'set a lower `learning_rate`, also in place of `auto`; or train more tokens in each gradient step, by more rollouts or by groups with unequal rewards',
    },
  ];
}

function sharperWarnings(metrics: Readonly<Record<string, number>>): JobWarning[] {
  const {
    surprisal_excess: excess = 0,
    surprisal_excess_error: error = 0,
    num_trainable_tokens: numTokens = 0,
  } = metrics;
  if (numTokens < SURPRISAL_TOKENS || excess > -SHARPER || excess > -SURPRISAL_ERRORS * error) return [];
  return [
    {
      code: 'sampling_sharper',
      message: `sampled tokens are ${(-excess).toFixed(3)} nats more likely than samples from the policy (standard error ${error.toFixed(3)}): they were sampled at a lower \`temperature\`, or truncated`,
      value: excess,
      suggestion: `sample at temperature 1 without ${listed('and')}; or send choices with their \`record_id\`, so that the trainer can replay the sampling`,
    },
  ];
}

function clipWarnings(
  { lossFunction, importanceSamplingLevel, epsilon, epsilonHigh }: Parameters<typeof withStepWarnings>[1],
  farthestRatio: number,
): JobWarning[] {
  const holdsSequences =
    importanceSamplingLevel === 'sequence' && POLICY_OBJECTIVES[lossFunction].bounds.of === 'ratio';
  if (!holdsSequences || Math.min(epsilon, epsilonHigh) < WIDEST_SEQUENCE_CLIP) return [];
  return [
    {
      code: 'clip_never_acts',
      message:
        `no ratio was clipped: with \`importance_sampling_level\` sequence the largest differed from 1 by ${farthestRatio.toExponential(1)}, ` +
        `and \`epsilon\` is ${epsilon}, \`epsilon_high\` ${epsilonHigh}`,
      value: Math.min(epsilon, epsilonHigh),
      suggestion: 'set `epsilon` to 3e-4 and `epsilon_high` to 4e-4, as GSPO (arXiv 2507.18071) does',
    },
  ];
}

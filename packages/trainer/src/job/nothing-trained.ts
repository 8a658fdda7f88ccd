import type { JobWarning } from './job-warning.ts';

/** Names of the wire. */
type StartedCounts = Readonly<Record<string, unknown>>;

/** Remedies by the most frequent reason of drops. */
const REMEDIES: Readonly<Record<string, string>> = {
  equal_rewards: 'use scenarios that are solved sometimes, more rollouts per group, or a finer reward',
  single_trajectory: 'send at least two trajectories per group',
  missing_logprobs: 'send choices unchanged, with `record_id` or `logprobs`',
  no_trainable_tokens: 'send sampled replies as choices, unchanged',
  too_long: 'shorten replies or prompts, or raise `packed_sequence_length`',
  balanced_away: 'set `advantage_balance` closer to 0',
  exception: 'check the exceptions of the groups',
};

/** @param started data of the job's `training_started` */
export function nothingToTrain(started: StartedCounts): JobWarning {
  const dropped = countsIn(started['dropped_trajectories']);
  const groups = countsIn(started['dropped_groups']);
  const reasons = dropped.length > 0 ? dropped : groups;
  const what = dropped.length > 0 ? 'trajectories' : 'groups';
  const cause =
    reasons.length === 0
      ? 'nothing was submitted'
      : `${what} left out: ${reasons.map(([reason, count]) => `${count} ${reason}`).join(', ')}`;
  const [most] = reasons.toSorted(([, a], [, b]) => b - a);
  return nothingTrained(cause, 0, REMEDIES[most?.[0] ?? ''] ?? 'see `dropped_trajectories` and `dropped_groups`');
}

/** Gradient steps without a gradient. */
export function noGradient(started: StartedCounts, steps: readonly Readonly<Record<string, number>>[]): JobWarning {
  const numTokens = steps.reduce((total, { num_trainable_tokens: count = 0 }) => total + count, 0);
  const isClipped = steps.every(({ clip_fraction: share }) => share === 1);
  if (started['num_trajectories_trainable'] === 0)
    return nothingTrained(
      'no trajectory has an advantage, and the other terms of the loss have no gradient yet',
      numTokens,
      REMEDIES['equal_rewards']!,
    );
  return isClipped
    ? nothingTrained('every token was clipped', numTokens, 'widen `epsilon` and `epsilon_high`')
    : nothingTrained(
        'every token was forced, masked or without an advantage',
        numTokens,
        'sample without constraints that leave only one token, and check `mask_prob_ratio`',
      );
}

function nothingTrained(cause: string, value: number, suggestion: string): JobWarning {
  return {
    code: 'nothing_trained',
    message: `nothing was trained because no token had a gradient: ${cause}`,
    value,
    suggestion,
  };
}

function countsIn(counts: unknown): [reason: string, count: number][] {
  return Object.entries(typeof counts === 'object' && counts !== null ? counts : {}).filter(
    (entry): entry is [string, number] => typeof entry[1] === 'number' && entry[1] > 0,
  );
}

/** Judges by the gradient norm, or, if the learner reports none, by the tokens. */
export function hasGradient({
  grad_norm: norm,
  num_tokens_with_gradient: numTokens = 1,
}: Readonly<Record<string, number>>): boolean {
  return norm === undefined ? numTokens > 0 : norm > 0;
}

import type { UnappliedStatus } from '../api/jobs.ts';
import type { StatusTone } from '../components/status-dot.tsx';

interface OutcomeWords {
  readonly short: string;
  /** The reason and the remedy. */
  readonly long: string;
  readonly tone: StatusTone;
}

const WORDS: Readonly<Record<string, OutcomeWords>> = {
  trained: { short: 'trained', long: 'The loss changed the probability of its tokens by its advantage.', tone: 'good' },
  regularized: {
    short: 'regularized',
    long: 'Its reward equals the others of its group, so it was trained only by the other terms of the loss (such as KL).',
    tone: 'plain',
  },
  equal_rewards: {
    short: 'equal rewards',
    long: 'All rollouts of its group have the same reward, so none is better than another. Use harder or easier tasks, more rollouts per group or a finer reward.',
    tone: 'warn',
  },
  zero_advantage: {
    short: 'average',
    long: 'Its reward is the mean of its group, so its advantage is 0.',
    tone: 'plain',
  },
  single_trajectory: {
    short: 'alone in its group',
    long: 'A reward is compared with others of its group, and there are none. Send at least two rollouts per group.',
    tone: 'warn',
  },
  missing_logprobs: {
    short: 'no log-probabilities',
    long: 'Its replies came without their sampling log-probabilities. Request `logprobs`, or send the choices unchanged.',
    tone: 'bad',
  },
  no_trainable_tokens: {
    short: 'no sampled tokens',
    long: 'It contains no tokens sampled from this model, so there is nothing to train.',
    tone: 'bad',
  },
  too_long: {
    short: 'too long',
    long: 'It has more tokens than the maximum sequence length. Use shorter replies or a larger `max_seq_length`.',
    tone: 'warn',
  },
  no_trajectories: {
    short: 'no rollouts',
    long: 'Its group had no rollout that could be trained.',
    tone: 'warn',
  },
  exception: {
    short: 'failed',
    long: 'All rollouts of its group failed. The exceptions of the group give the reasons.',
    tone: 'bad',
  },
  copied: {
    short: 'a copy',
    long: 'All its sampled tokens are also in another rollout of the job, which trains them: each sampled token is trained once.',
    tone: 'plain',
  },
  balanced_away: {
    short: 'left out for balance',
    long: 'The job balances positive and negative advantages, and nothing of this rollout was left to train.',
    tone: 'warn',
  },
};

/** All outcomes that have words. */
export const OUTCOMES: readonly string[] = Object.keys(WORDS);

/** Words for rollouts of jobs that made no step of the model. */
const LOST: Readonly<Record<Exclude<UnappliedStatus, 'running'>, OutcomeWords>> = {
  failed: { short: 'job failed', long: 'Its job failed, so no step of the model learned from it.', tone: 'bad' },
  cancelled: {
    short: 'job cancelled',
    long: 'Its job was cancelled, so no step of the model learned from it.',
    tone: 'plain',
  },
};

/**
 * The outcome of a rollout in plain words.
 * @param outcome null: not known yet, or of a log
 * @param status of its job, if that made no step of the model
 */
export function outcomeWords(outcome: string | null, isOfLog: boolean, status?: UnappliedStatus): OutcomeWords {
  if (status === 'failed' || status === 'cancelled') return LOST[status];
  if (status === 'running' && (outcome === 'trained' || outcome === 'regularized'))
    return { short: 'in training', long: 'Its job trains on it now.', tone: 'live' };
  if (outcome === null)
    return isOfLog
      ? { short: 'logged', long: 'It was sent for evaluation, not for training.', tone: 'plain' }
      : { short: 'not yet', long: 'Its job has not started.', tone: 'plain' };
  return WORDS[outcome] ?? { short: outcome.replaceAll('_', ' '), long: 'It was not trained.', tone: 'warn' };
}

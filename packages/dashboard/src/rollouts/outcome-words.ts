import type { StatusTone } from '../components/status-dot.tsx';

interface OutcomeWords {
  readonly short: string;
  /** Why, and what to do about it. */
  readonly long: string;
  readonly tone: StatusTone;
}

const WORDS: Readonly<Record<string, OutcomeWords>> = {
  trained: { short: 'trained', long: 'The loss pushed its tokens by its advantage.', tone: 'good' },
  regularized: {
    short: 'regularized',
    long: 'Its reward says nothing against its group, so only the other terms of the loss (such as KL) took it in.',
    tone: 'plain',
  },
  equal_rewards: {
    short: 'equal rewards',
    long: 'Every rollout of its group has the same reward, so none is better than another. Harder or easier tasks, more rollouts a group or a finer reward help.',
    tone: 'warn',
  },
  zero_advantage: {
    short: 'average',
    long: 'Its reward is the mean of its group, so there was nothing to push.',
    tone: 'plain',
  },
  single_trajectory: {
    short: 'alone in its group',
    long: 'A reward is judged against others of its group, and there are none: send at least two rollouts a group.',
    tone: 'warn',
  },
  missing_logprobs: {
    short: 'no log-probabilities',
    long: 'Its replies came without the log-probabilities that they were sampled with: ask for `logprobs`, or send the choices as they were answered.',
    tone: 'bad',
  },
  no_trainable_tokens: {
    short: 'no sampled tokens',
    long: 'Nothing in it was sampled from this model, so there is nothing to train.',
    tone: 'bad',
  },
  too_long: {
    short: 'too long',
    long: 'It has more tokens than fit into a row of training. Shorter replies, or a larger `max_seq_length`, let it in.',
    tone: 'warn',
  },
  no_trajectories: {
    short: 'no rollouts',
    long: 'Its group came without a rollout that could be trained.',
    tone: 'warn',
  },
  exception: {
    short: 'failed',
    long: 'All rollouts of its group failed: the exceptions of the group say why.',
    tone: 'bad',
  },
  copied: {
    short: 'a copy',
    long: 'Everything sampled in it is also in another rollout of its job, and is trained there: each sampled token is trained once.',
    tone: 'plain',
  },
  balanced_away: {
    short: 'left out for balance',
    long: 'With the balance of positive and negative advantages that the job asked for, nothing remained to train.',
    tone: 'warn',
  },
};

/** The fate of a rollout in plain words. @param outcome null: not known yet, or of a log */
export function outcomeWords(outcome: string | null, isOfLog: boolean): OutcomeWords {
  if (outcome === null)
    return isOfLog
      ? { short: 'logged', long: 'It was sent to be measured, not to be trained on.', tone: 'plain' }
      : { short: 'not yet', long: 'Its job has not begun.', tone: 'plain' };
  return WORDS[outcome] ?? { short: outcome.replaceAll('_', ' '), long: 'It was not trained.', tone: 'warn' };
}

import type { TokenSequenceObject } from '@trainyard/sdk';

/** One number on the way from the reward to the loss. */
export interface CreditLink {
  readonly name: string;
  readonly value: number;
  readonly help: string;
}

/** Factors below this distance from 1 are rounding. */
const UNCHANGED = 1e-6;

/**
 * The way from a reward to the push on each token: group mean and spread, advantage, balance over the job, and
 * weight. Their product is the advantage times the weight of the loss.
 *
 * @param rewards of the whole group
 * @param advantage of the rollout; null if it is not known
 */
export function creditChain(
  reward: number,
  rewards: readonly number[],
  advantage: number | null,
  sequence: Pick<TokenSequenceObject, 'advantage' | 'weight'>,
): CreditLink[] {
  const mean = rewards.reduce((sum, one) => sum + one, 0) / Math.max(1, rewards.length);
  const spread = Math.sqrt(rewards.reduce((sum, one) => sum + (one - mean) ** 2, 0) / Math.max(1, rewards.length));
  const isScaled =
    advantage !== null && Math.abs(advantage - (reward - mean)) > UNCHANGED * Math.max(1, Math.abs(advantage));
  const balance = advantage === null || advantage === 0 ? 1 : sequence.advantage / advantage;
  return [
    { name: 'reward', value: reward, help: 'Score of this rollout.' },
    ...(rewards.length < 2
      ? []
      : [
          { name: 'group mean', value: mean, help: `Mean of the ${rewards.length} rewards of its group; subtracted.` },
          {
            name: 'group spread',
            value: spread,
            help: isScaled
              ? 'Standard deviation of the rewards of its group; the difference is divided by it.'
              : 'Standard deviation of the rewards of its group; not used, because `scale_rewards` or `normalize_advantages` is off.',
          },
        ]),
    ...(advantage === null ? [] : [{ name: 'advantage', value: advantage, help: 'Reward relative to its group.' }]),
    ...(Math.abs(balance - 1) <= UNCHANGED
      ? []
      : [
          { name: '× balance', value: balance, help: 'Scale of the whole job, and `advantage_balance`.' },
          { name: 'used advantage', value: sequence.advantage, help: 'Factor of each trained token in the loss.' },
        ]),
    {
      name: '× weight',
      value: sequence.weight,
      help: 'Share of this rollout in the loss, the same for each of its tokens.',
    },
    {
      name: 'push per token',
      value: sequence.advantage * sequence.weight,
      help: 'Advantage times weight: above 0 the tokens become more likely, below 0 less.',
    },
  ];
}

import type { ChartSpec } from './chart-spec.ts';

/** Names of the two lines, also used in the guide. */
const FRESH = 'fresh rollouts';
const UPDATED = 'after updates';

const compared = (name: string, chart: Omit<ChartSpec, 'metrics'>): ChartSpec => ({
  ...chart,
  metrics: [
    { name: `train/fresh/${name}`, label: FRESH },
    { name: `train/updated/${name}`, label: UPDATED },
  ],
});

const GAP = { isLog: true, good: { from: 1e-6, to: 1e-3 } } as const;

/**
 * Differences between sampler and trainer. In the first gradient step of a job the policy is the sampler, so any
 * difference is an error; in later ones the policy has moved on purpose.
 */
export const SAMPLER_CHARTS: readonly ChartSpec[] = [
  compared('logprob_gap_mean', {
    title: 'Log-probability gap',
    help: 'Mean difference for the same tokens. Fresh rollouts should stay in the shaded band; after updates it shows how far a job moves the policy.',
    ...GAP,
  }),
  compared('logprob_gap_max', { title: 'Largest gap', help: 'Of any token.', isLog: true }),
  compared('logprob_gap_p99', {
    title: 'Gap of 99 % of tokens',
    help: '99 % of the tokens have a smaller one.',
    ...GAP,
  }),
  compared('probs_corr', {
    title: '1 − correlation of probabilities',
    help: 'Fresh rollouts should stay below 0.01; more means that tokens were lost.',
    isLog: true,
    isFromOne: true,
    good: { from: 0, to: 0.01 },
  }),
  compared('kl_sampler', {
    title: 'KL to the sampler',
    help: 'Nats per token.',
    isLog: true,
    good: { from: 0, to: 1e-3 },
  }),
  {
    ...compared('surprisal_excess', {
      title: 'Surprisal excess',
      help: 'Fresh rollouts below −0.03: the tokens were drawn from a sharper distribution than the policy. The area is the standard error.',
      good: { from: -0.03, to: 0.03 },
    }),
    deviation: 'train/fresh/surprisal_excess_error',
  },
];

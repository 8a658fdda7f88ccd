import type { ChartSpec } from './chart-spec.ts';
import { SAMPLER_CHARTS } from './sampler-charts.ts';

export interface ChartGroup {
  readonly title: string;
  readonly charts: readonly ChartSpec[];
}

const one = (name: string, title: string, help?: string): ChartSpec => ({
  title,
  metrics: [{ name, label: title.toLowerCase() }],
  ...(help === undefined ? {} : { help }),
});

/** Help below the loss of supervised training. */
export const LOSS_OF_CONVERSATIONS =
  'Mean negative log-probability per trained token, in nats. Lower means that the replies of the data became more likely. A held-out loss that rises again means that the model learns the conversations by heart.';

/** Names as in the training API reference. Other metrics are drawn in a last group. */
const FIXED: readonly ChartGroup[] = [
  {
    title: 'Reward',
    charts: [
      {
        title: 'Reward',
        metrics: [{ name: 'train/reward', label: 'reward' }],
        deviation: 'train/reward_std_dev',
        help: 'Mean over the rollouts drawn from a step; the area is the spread within groups.',
      },
      one(
        'train/reward_std_dev',
        'Spread within groups',
        'Near 0 the groups teach nothing: all their rewards are equal.',
      ),
      one('train/exception_rate', 'Failed rollouts', 'Share of rollouts that ended in an exception.'),
    ],
  },
  {
    title: 'Loss',
    charts: [
      {
        title: 'Loss',
        metrics: [
          { name: 'train/loss', label: 'trained conversations' },
          { name: 'held_out/loss', label: 'held-out conversations' },
        ],
        help: LOSS_OF_CONVERSATIONS,
      },
    ],
  },
  {
    title: 'Policy',
    charts: [
      one('train/policy_loss', 'Policy loss', 'Its value means little; watch the reward.'),
      one('train/entropy', 'Entropy', 'Nats per token. A fall towards 0 means that replies lose their variety.'),
      {
        title: 'KL to the base model and the reference',
        metrics: [
          { name: 'train/kl_base', label: 'base' },
          { name: 'train/kl_policy_ref', label: 'reference' },
        ],
        help: 'Nats per token. Above 1 from the base model, read some rollouts.',
      },
      {
        title: 'Clip fraction',
        metrics: [
          { name: 'train/clip_fraction', label: 'all' },
          { name: 'train/clip_fraction_low', label: 'low' },
          { name: 'train/clip_fraction_high', label: 'high' },
        ],
        help: 'Share of tokens whose ratio is outside the bounds.',
      },
      {
        title: 'Importance ratio',
        metrics: [
          { name: 'train/ratio_mean', label: 'mean' },
          { name: 'train/ratio_max', label: 'max' },
        ],
      },
      one('train/advantage_mean', 'Advantage', 'Near 0 if a step contains whole groups.'),
    ],
  },
  { title: 'Sampler against trainer', charts: SAMPLER_CHARTS },
  {
    title: 'Optimiser and speed',
    charts: [
      one('train/grad_norm', 'Gradient norm', 'Before clipping.'),
      one('train/learning_rate', 'Learning rate'),
      one('train/tokens_per_second', 'Tokens per second'),
      {
        title: 'Seconds per gradient step',
        metrics: [
          { name: 'train/seconds_forward', label: 'forward' },
          { name: 'train/seconds_backward', label: 'backward' },
          { name: 'train/seconds_precalculate', label: 'precalculate' },
          { name: 'train/seconds_reference', label: 'reference' },
        ],
      },
      one('train/peak_memory_mb', 'Peak memory', 'MB.'),
      {
        title: 'Trained tokens',
        metrics: [
          { name: 'train/num_trainable_tokens', label: 'trainable' },
          { name: 'train/num_row_tokens', label: 'computed' },
        ],
      },
    ],
  },
];

/** Metrics of rollouts that the service computes, each for training and all logged splits. */
const OF_REPLIES = [
  { name: 'solved_share', title: 'Solved', help: 'Share of rollouts with a reward of 1.' },
  { name: 'reply_tokens', title: 'Reply length', help: 'Mean sampled tokens of a rollout.' },
  { name: 'cut_off_share', title: 'Cut off', help: 'Share of rollouts whose last reply ended at its length limit.' },
] as const;
const OWN = 'train/rollouts/';

/** Charts of solved, length and cut off, and of the rollouts' own metrics, with training first. */
function replyGroups(names: readonly string[]): ChartGroup[] {
  const splits = names.filter((name) => name.endsWith('/solved_share') && !name.startsWith(OWN));
  const others = splits.map((name) => name.slice(0, -'/solved_share'.length));
  const all = (name: string) => [
    { name: OWN + name, label: 'training' },
    ...others.map((split) => ({ name: `${split}/${name}`, label: split })),
  ];
  const known: ReadonlySet<string> = new Set(OF_REPLIES.map(({ name }) => OWN + name));
  const own = names.filter((name) => name.startsWith(OWN) && !known.has(name)).map((name) => name.slice(OWN.length));
  return [
    {
      title: 'Replies',
      charts: OF_REPLIES.map(({ name, title, help }) => ({
        title,
        help,
        metrics: all(name).slice(0, MAX_METRICS),
      })),
    },
    {
      title: 'Own metrics of rollouts',
      charts: own.map((name) => ({ title: name, metrics: all(name).slice(0, MAX_METRICS) })),
    },
  ];
}

const DROPPED = 'train/num_groups_dropped_';
const MAX_METRICS = 4;

/** The charts for a model with these metrics; a chart without any of its metrics is left out. */
export function chartGroupsOf(names: readonly string[]): readonly ChartGroup[] {
  const known = new Set(names);
  const [first, ...rest] = withSplits(FIXED, names);
  const groups = [first!, ...replyGroups(names), ...rest, groupsOfGroups(names)]
    .map(({ title, charts }) => ({
      title,
      charts: charts
        .map((chart) => ({ ...chart, metrics: chart.metrics.filter(({ name }) => known.has(name)) }))
        .filter(({ metrics }) => metrics.length > 0),
    }))
    .filter(({ charts }) => charts.length > 0);
  const drawn = new Set(
    groups.flatMap(({ charts }) =>
      charts.flatMap(({ metrics, deviation }) => [
        ...metrics.map(({ name }) => name),
        ...(deviation ? [deviation] : []),
      ]),
    ),
  );
  const others = names.filter((name) => !drawn.has(name)).map((name) => one(name, name));
  return others.length === 0 ? groups : [...groups, { title: 'Other metrics', charts: others }];
}

/** Adds a chart for each logged split next to the reward. */
function withSplits([first, ...rest]: readonly ChartGroup[], names: readonly string[]): ChartGroup[] {
  const splits = names.filter((name) => name.endsWith('/reward') && name !== 'train/reward');
  const charts = splits.map((name) => one(name, `Reward of ${name.slice(0, -'/reward'.length)}`));
  const [reward, ...others] = first!.charts;
  return [{ title: first!.title, charts: [reward!, ...charts, ...others] }, ...rest];
}

/** Charts of trained and dropped groups, by reason. */
function groupsOfGroups(names: readonly string[]): ChartGroup {
  const reasons = names.filter((name) => name.startsWith(DROPPED));
  const dropped = reasons.map((name) => ({ name, label: name.slice(DROPPED.length).replaceAll('_', ' ') }));
  return {
    title: 'Groups',
    charts: [
      {
        title: 'Groups',
        metrics: [
          { name: 'train/num_groups_submitted', label: 'submitted' },
          { name: 'train/num_groups_trainable', label: 'trained' },
          { name: 'train/num_groups_regularized', label: 'regularized' },
        ],
      },
      {
        title: 'Groups dropped, by reason',
        metrics: dropped.slice(0, MAX_METRICS),
        help: 'Groups with equal rewards teach nothing: choose scenarios that are solved sometimes, neither always nor never.',
      },
    ],
  };
}

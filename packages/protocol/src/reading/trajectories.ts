import Type, { type Static } from 'typebox';
import { listPageSchema, nullable, PageQuerySchema } from '../shape/schema.ts';

/** Trajectories of jobs and logs, and their tokens. */

const MAX_INDEX = 2 ** 31 - 1;

export const TrajectoryPageQuerySchema = Type.Object({
  ...PageQuerySchema.properties,
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, default: 20, description: 'Maximum number of items per page.' }),
  ),
  job_id: Type.Optional(Type.String({ maxLength: 128, description: 'Only trajectories of this job.' })),
  log_id: Type.Optional(Type.String({ maxLength: 128, description: 'Only trajectories of this log.' })),
  split: Type.Optional(
    Type.String({
      maxLength: 128,
      description: 'Only trajectories of this split. Trajectories of jobs have the split `train`.',
    }),
  ),
  step: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: MAX_INDEX,
      description: 'Only trajectories sampled at this step of the model.',
    }),
  ),
  group: Type.Optional(
    Type.Integer({ minimum: 0, maximum: MAX_INDEX, description: 'Only the group with this number in its job or log.' }),
  ),
  outcome: Type.Optional(Type.String({ maxLength: 64, description: 'Only trajectories with this outcome.' })),
  min_reward: Type.Optional(Type.Number({ description: 'Only trajectories with at least this reward.' })),
  max_reward: Type.Optional(Type.Number({ description: 'Only trajectories with at most this reward.' })),
  finish_reason: Type.Optional(
    Type.String({ maxLength: 64, description: 'Only trajectories whose last reply ended for this reason.' }),
  ),
  prompt_digest: Type.Optional(
    Type.String({ maxLength: 64, description: 'Only trajectories that answer this prompt, at any step.' }),
  ),
  text: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description:
        'Only trajectories with this text in their messages, ignoring case. Only in order of arrival (`sort=position`). A request searches a limited amount of text, so a page can have fewer items than `limit`, or none, while `has_more` is true. `last_id` is the last trajectory searched.',
    }),
  ),
  sort: Type.Optional(
    Type.Enum(['position', 'reward', 'num_tokens', 'num_turns'], {
      description: 'Default `position`: in order of arrival. Unknown numbers come before all others.',
    }),
  ),
});
export type TrajectoryPageQuery = Static<typeof TrajectoryPageQuerySchema>;

const TRAJECTORY = {
  id: Type.String(),
  model_id: Type.String(),
  job_id: nullable(Type.String(), { description: 'Job of the trajectory; null for a log.' }),
  log_id: nullable(Type.String(), { description: 'Log of the trajectory; null for a job.' }),
  split: Type.String({ description: '`train` for a job.' }),
  step: Type.Integer({
    minimum: 0,
    description: 'Step of the model that sampled it; for a job, the step from which it starts.',
  }),
  group: Type.Integer({ minimum: 0, description: 'Number of its group in the job or log.' }),
  index: Type.Integer({ minimum: 0, description: 'Number of the trajectory in its group.' }),
  reward: Type.Number(),
  outcome: nullable(Type.String(), {
    description:
      '`trained`, `regularized`, or the reason why it was not trained. Null for a log, and before its job starts.',
  }),
  advantage: nullable(Type.Number(), {
    description: 'Reward relative to its group. Null if the rewards are equal, and if `outcome` is null.',
  }),
  prompt_digest: nullable(Type.String(), {
    description:
      'Digest of the prompt: the messages before the first sampled choice, and the tools. Equal for trajectories with the same prompt. Null if the data were removed by an earlier release, and until a new release has computed it again.',
  }),
  created_at: Type.Integer({ description: 'Time of its job or log, Unix seconds.' }),
  question: nullable(Type.String(), {
    description: 'Start of the last user message of its prompt. Null once the data were removed.',
  }),
  excerpt: nullable(Type.String(), {
    description:
      'Start of its last reply; in a list with `text`, the words around its first occurrence. Null once the data were removed.',
  }),
  num_turns: nullable(Type.Integer(), { description: 'Number of its replies. Null if unknown.' }),
  num_tokens: nullable(Type.Integer(), {
    description: 'Number of its sampled tokens, over all replies. Null if unknown.',
  }),
  finish_reason: nullable(Type.String(), {
    description: 'Reason that its last reply ended, such as `stop` or `length`. Null if unknown.',
  }),
  metrics: Type.Unsafe<Record<string, number>>({
    type: 'object',
    additionalProperties: { type: 'number' },
    description: 'Its own metrics, the first 32.',
  }),
};

const TrajectorySummarySchema = Type.Object(TRAJECTORY, { title: 'TrajectorySummary' });
export type TrajectoryObject = Static<typeof TrajectorySummarySchema>;
export const TrajectorySummaryPageSchema = listPageSchema('TrajectorySummaryPage', TrajectorySummarySchema);

const Sent = Type.Unsafe<Record<string, unknown>>({ type: 'object' });

export const TrajectoryContentSchema = Type.Object(
  {
    ...TRAJECTORY,
    content: nullable(Sent, {
      description: 'The trajectory as submitted, with its calls as histories. Null if it was removed with old data.',
    }),
    group_content: nullable(Sent, {
      description: 'Other fields of its group: `metadata`, `metrics`, `exceptions`, `logs`.',
    }),
  },
  { title: 'TrajectoryContent' },
);
export type TrajectoryContent = Static<typeof TrajectoryContentSchema>;

const LogprobsSchema = (description: string) => Type.Array(Type.Union([Type.Number(), Type.Null()]), { description });

const TokenSequenceSchema = Type.Object(
  {
    gradient_step: Type.Integer({ minimum: 0, description: 'Gradient step in its job, from 0.' }),
    advantage: Type.Number({ description: 'Advantage of each trained token, as used by the loss.' }),
    weight: Type.Number({ description: 'Weight of each trained token in the loss.' }),
    token_ids: Type.Array(Type.Integer()),
    texts: Type.Array(Type.String(), { description: 'Bytes that do not form a whole character become U+FFFD.' }),
    is_trained: Type.Array(Type.Boolean(), { description: 'False for context tokens.' }),
    sampled_logprobs: LogprobsSchema(
      'Log-probabilities of trained tokens under the policy that sampled them, at the time of sampling.',
    ),
    trained_logprobs: LogprobsSchema(
      'Log-probabilities of trained tokens under the weights at the start of the gradient step.',
    ),
    entropies: nullable(LogprobsSchema('Entropy in nats of the policy at each trained token, at the same weights.'), {
      description: 'Null if the trainer computes none, and for jobs of earlier versions.',
    }),
  },
  { title: 'TokenSequence', description: 'A history in a gradient step. Each list has one entry per token.' },
);
export type TokenSequenceObject = Static<typeof TokenSequenceSchema>;

const SampledChoiceSchema = Type.Object(
  {
    history: Type.Integer({
      minimum: 0,
      description: '0 is `messages_and_choices`; 1 and up are `additional_histories`.',
    }),
    item: Type.Integer({ minimum: 0, description: 'Index among the messages of that history.' }),
    token_ids: Type.Array(Type.Integer()),
    texts: nullable(Type.Array(Type.String()), {
      description:
        'Bytes that do not form a whole character become U+FFFD. Null if the reply has no texts and no engine could provide them.',
    }),
    sampled_logprobs: LogprobsSchema('Log-probabilities under the policy that sampled them, as submitted.'),
  },
  { title: 'SampledChoice', description: 'Tokens of a reply that was not trained.' },
);
export type SampledChoiceObject = Static<typeof SampledChoiceSchema>;

export const TrajectoryTokensSchema = Type.Object(
  {
    ...TRAJECTORY,
    sequences: Type.Array(TokenSequenceSchema, {
      description: 'Empty if the trajectory was not trained (see `outcome`) or its tokens are no longer kept.',
    }),
    choices: Type.Array(SampledChoiceSchema, {
      description:
        'If `sequences` is empty, the replies that have sampled tokens, as submitted. Empty if the content was removed with old data. Their context was never rendered, so it has no tokens.',
    }),
  },
  { title: 'TrajectoryTokens' },
);
export type TrajectoryTokens = Static<typeof TrajectoryTokensSchema>;

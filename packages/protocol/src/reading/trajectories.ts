import Type, { type Static } from 'typebox';
import { listPageSchema, nullable, PageQuerySchema } from '../shape/schema.ts';

/** Trajectories of jobs and logs, and their tokens. */

const MAX_INDEX = 2 ** 31 - 1;

export const TrajectoryPageQuerySchema = Type.Object({
  ...PageQuerySchema.properties,
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1000, default: 20, description: 'The most items of the page.' }),
  ),
  job_id: Type.Optional(Type.String({ maxLength: 128, description: 'Only those that this job was given.' })),
  log_id: Type.Optional(Type.String({ maxLength: 128, description: 'Only those of this log.' })),
  split: Type.Optional(
    Type.String({ maxLength: 128, description: 'Only those of this split; those of jobs have the split `train`.' }),
  ),
  step: Type.Optional(
    Type.Integer({ minimum: 0, maximum: MAX_INDEX, description: 'Only those sampled at this step of the model.' }),
  ),
  group: Type.Optional(
    Type.Integer({ minimum: 0, maximum: MAX_INDEX, description: 'Only the group of this number in its job or log.' }),
  ),
  outcome: Type.Optional(Type.String({ maxLength: 64, description: 'Only those that this became of.' })),
  prompt_digest: Type.Optional(
    Type.String({ maxLength: 64, description: 'Only those that answer this prompt, of whatever step.' }),
  ),
  text: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 200,
      description:
        'Only those in whose messages this is said, whatever the case of its letters; not with `sort=reward`. A request reads so much of what was said and no more: a page can have fewer items than `limit`, or none, while `has_more` is true; `last_id` is how far it came.',
    }),
  ),
  sort: Type.Optional(
    Type.Enum(['position', 'reward'], { description: 'Default `position`: in the order in which they came.' }),
  ),
});
export type TrajectoryPageQuery = Static<typeof TrajectoryPageQuerySchema>;

const TRAJECTORY = {
  id: Type.String(),
  model_id: Type.String(),
  job_id: nullable(Type.String(), { description: 'The job that was given it; null of a log.' }),
  log_id: nullable(Type.String(), { description: 'The log that it is of; null of a job.' }),
  split: Type.String({ description: '`train` of a job.' }),
  step: Type.Integer({
    minimum: 0,
    description: 'Step of the model that it was sampled at: of a job the one that it starts from.',
  }),
  group: Type.Integer({ minimum: 0, description: 'Number of its group in the job or log.' }),
  index: Type.Integer({ minimum: 0, description: 'Its number in the group.' }),
  reward: Type.Number(),
  outcome: nullable(Type.String(), {
    description: '`trained`, `regularized`, or why it was not; null of a log, and before its job has begun.',
  }),
  advantage: nullable(Type.Number(), {
    description: 'Its reward against those of its group; null where they are equal, and where `outcome` is null.',
  }),
  prompt_digest: nullable(Type.String(), {
    description: 'The same for trajectories that answer the same prompt: messages before the first reply, and tools.',
  }),
};

const TrajectorySummarySchema = Type.Object(
  {
    ...TRAJECTORY,
    excerpt: Type.Optional(
      Type.String({ description: 'With `text`: what is said around the first place where it stands.' }),
    ),
  },
  { title: 'TrajectorySummary' },
);
export type TrajectoryObject = Static<typeof TrajectorySummarySchema>;
export const TrajectorySummaryPageSchema = listPageSchema('TrajectorySummaryPage', TrajectorySummarySchema);

const Sent = Type.Unsafe<Record<string, unknown>>({ type: 'object' });

export const TrajectoryContentSchema = Type.Object(
  {
    ...TRAJECTORY,
    content: nullable(Sent, {
      description:
        'The trajectory as it was sent, with its calls as histories; null when it was removed with old data.',
    }),
    group_content: nullable(Sent, {
      description: 'The rest of its group: `metadata`, `metrics`, `exceptions`, `logs`.',
    }),
  },
  { title: 'TrajectoryContent' },
);
export type TrajectoryContent = Static<typeof TrajectoryContentSchema>;

const LogprobsSchema = (description: string) => Type.Array(Type.Union([Type.Number(), Type.Null()]), { description });

const TokenSequenceSchema = Type.Object(
  {
    gradient_step: Type.Integer({ minimum: 0, description: 'Of its job, from 0.' }),
    advantage: Type.Number({ description: 'Of each of its trained tokens, as the loss had it.' }),
    weight: Type.Number({ description: 'Of each of its trained tokens in the loss.' }),
    token_ids: Type.Array(Type.Integer()),
    texts: Type.Array(Type.String(), { description: 'Bytes that are no whole character read as U+FFFD.' }),
    is_trained: Type.Array(Type.Boolean(), { description: 'False of what is context.' }),
    sampled_logprobs: LogprobsSchema('Of trained tokens under the policy that sampled them, as they were drawn.'),
    trained_logprobs: LogprobsSchema('Of trained tokens under the weights that the gradient step began with.'),
  },
  { title: 'TokenSequence', description: 'A history in a gradient step; the lists are as long as it has tokens.' },
);
export type TokenSequenceObject = Static<typeof TokenSequenceSchema>;

const SampledChoiceSchema = Type.Object(
  {
    history: Type.Integer({ minimum: 0, description: '0: `messages_and_choices`; from 1 on `additional_histories`.' }),
    item: Type.Integer({ minimum: 0, description: 'Its place among the messages of that history.' }),
    token_ids: Type.Array(Type.Integer()),
    texts: nullable(Type.Array(Type.String()), {
      description:
        'Bytes that are no whole character read as U+FFFD. Null when neither the reply has them nor what samples could be asked.',
    }),
    sampled_logprobs: LogprobsSchema('Under the policy that sampled them, as they were sent.'),
  },
  { title: 'SampledChoice', description: 'A reply that was not trained, by its tokens.' },
);
export type SampledChoiceObject = Static<typeof SampledChoiceSchema>;

export const TrajectoryTokensSchema = Type.Object(
  {
    ...TRAJECTORY,
    sequences: Type.Array(TokenSequenceSchema, {
      description: 'Empty when it was not trained, which `outcome` explains, or when its tokens are not kept any more.',
    }),
    choices: Type.Array(SampledChoiceSchema, {
      description:
        'Where `sequences` is empty: the replies that name what was sampled, as they were sent; also empty when its words were removed with old data. Their context was never rendered, so it has no tokens.',
    }),
  },
  { title: 'TrajectoryTokens' },
);
export type TrajectoryTokens = Static<typeof TrajectoryTokensSchema>;

import Type, { type Static } from 'typebox';
import { NAME_PATTERN, STORABLE_PATTERN, TAG_PATTERN } from '../fields/name-pattern.ts';
import { LoraObjectSchema, LoraRequestSchema } from './lora.ts';
import {
  listPageSchema,
  NamedStepSchema,
  nullable,
  optionalNullable,
  PageQuerySchema,
  WELL_FORMED_PATTERN,
} from '../shape/schema.ts';
import { TrainingConfigSchema } from './training-config.ts';
import { TrajectoryGroupSchema } from './trajectory.ts';

/** Preview API under /v1/preview: models, checkpoints, logs, training jobs. */

const PartOfName = Type.String({ minLength: 1, maxLength: 128, pattern: NAME_PATTERN });

/** Maximum number of tags of a model. */
export const MAX_TAGS = 32;
export const TagSchema = Type.String({ minLength: 1, maxLength: 64, pattern: TAG_PATTERN });
const Tags = Type.Array(TagSchema, { maxItems: MAX_TAGS });
const Notes = Type.String({ maxLength: 10_000, pattern: STORABLE_PATTERN });

/** POST /preview/models. */
export const CreateModelRequestSchema = Type.Object(
  {
    entity: optionalNullable(PartOfName),
    project: PartOfName,
    name: PartOfName,
    base_model: Type.String({ minLength: 1 }),
    return_existing: optionalNullable(Type.Boolean()),
    sampling_only: optionalNullable(Type.Boolean()),
    lora: optionalNullable(LoraRequestSchema),
    tags: optionalNullable(Tags),
    notes: optionalNullable(Notes),
  },
  { title: 'CreateModelRequest', additionalProperties: false },
);
export type CreateModelRequest = Static<typeof CreateModelRequestSchema>;

/** PATCH /preview/models/{model_id}. */
export const UpdateModelRequestSchema = Type.Object(
  {
    add_tags: optionalNullable(Tags),
    remove_tags: optionalNullable(Tags),
    notes: optionalNullable(Notes),
    is_archived: optionalNullable(Type.Boolean()),
  },
  { title: 'UpdateModelRequest', additionalProperties: false },
);
export type UpdateModelRequest = Static<typeof UpdateModelRequestSchema>;

export const ModelObjectSchema = Type.Object(
  {
    id: Type.String({ description: 'Id of the model in the other routes of the preview API.' }),
    entity: Type.String({ description: "Never null. The caller's entity if the request had none." }),
    project: Type.String(),
    name: Type.String(),
    base_model: Type.String(),
    run_id: Type.String({ description: 'Id of its metrics, which are kept as long as the model.' }),
    lora: LoraObjectSchema,
  },
  { title: 'ModelObject' },
);
export type ModelObject = Static<typeof ModelObjectSchema>;

export const DeleteModelResponseSchema = Type.Object(
  {
    model_id: Type.String(),
    deleted_checkpoints: Type.Integer({ minimum: 0 }),
    deleted_run: Type.Boolean({
      description: 'True if its metrics were deleted too, including those in an external tracker.',
    }),
  },
  { title: 'DeleteModelResponse' },
);
export type DeleteModelResponse = Static<typeof DeleteModelResponseSchema>;

/**
 * Reasons to keep a checkpoint: `last`, `best` and `every` of the policy; `marked` by a user; `first`, step
 * 0; `reference`, a KL reference of recent or waiting jobs; `start`, the weights that training on rollouts
 * started from; `requested` by clients; `used` by a job, an export or another model; `new`, superseded
 * moments ago; `shared`, with the files of another kept checkpoint.
 */
export const KEEP_REASONS = [
  'last',
  'best',
  'every',
  'marked',
  'first',
  'reference',
  'start',
  'requested',
  'used',
  'new',
  'shared',
] as const;
export type KeepReason = (typeof KEEP_REASONS)[number];

const CheckpointSchema = Type.Object(
  {
    id: Type.String(),
    step: Type.Integer({
      minimum: 0,
      description: 'Number of completed jobs of the model; 0 is the unchanged base model.',
    }),
    metrics: Type.Unsafe<Record<string, number>>({
      type: 'object',
      additionalProperties: { type: 'number' },
      description: 'Means over the job (`train/…`) and over logged trajectories (`<split>/…`).',
    }),
    size_bytes: nullable(Type.Integer({ minimum: 0 }), {
      description:
        'Bytes of its files without the optimizer state. Null for the unchanged base model, and before they are measured.',
    }),
    optimizer_bytes: nullable(Type.Integer({ minimum: 0 }), {
      description: 'Bytes of the optimizer state; 0 after it was removed. Null when `size_bytes` is null.',
    }),
    is_marked: Type.Boolean({ description: 'True if a user marked it: the retention policy never removes it.' }),
    kept_for: nullable(Type.Array(Type.Enum(KEEP_REASONS)), {
      description:
        'Reasons why `--keep-checkpoints` keeps it; if empty, it is removed soon. Null if the service keeps all checkpoints, and for a removed checkpoint.',
    }),
    removed_at: nullable(Type.Integer(), {
      description: 'Unix seconds when the retention policy removed it; null if it exists.',
    }),
  },
  { title: 'Checkpoint', description: 'A listed checkpoint can be sampled from unless it has `removed_at`.' },
);
export type CheckpointObject = Static<typeof CheckpointSchema>;
export const CheckpointPageSchema = listPageSchema('CheckpointPage', CheckpointSchema);

/** GET /preview/models/{model_id}/checkpoints. */
export const CheckpointPageQuerySchema = Type.Object({
  ...PageQuerySchema.properties,
  removed: Type.Optional(
    Type.Boolean({
      description: 'List instead the checkpoints that the retention policy removed and that can still be restored.',
    }),
  ),
  min_step: Type.Optional({ ...NamedStepSchema, description: 'Only checkpoints from this step.' }),
  max_step: Type.Optional({ ...NamedStepSchema, description: 'Only checkpoints up to this step.' }),
});
export type CheckpointPageQuery = Static<typeof CheckpointPageQuerySchema>;

/** POST /preview/models/{model_id}/checkpoints/keep. */
export const KeepCheckpointsRequestSchema = Type.Object(
  {
    steps: Type.Array(NamedStepSchema, { description: 'Steps to mark. Removed checkpoints are restored.' }),
    is_kept: Type.Optional(
      Type.Boolean({
        default: true,
        description: 'False removes the marks, so that the retention policy applies again.',
      }),
    ),
  },
  { title: 'KeepCheckpointsRequest', additionalProperties: false },
);
export type KeepCheckpointsRequest = Static<typeof KeepCheckpointsRequestSchema>;

export const KeepCheckpointsResponseSchema = Type.Object(
  {
    steps: Type.Array(Type.Integer({ minimum: 0 }), { description: 'Steps now in the requested state.' }),
    restored_steps: Type.Array(Type.Integer({ minimum: 0 }), { description: 'Steps that were restored.' }),
    not_found_steps: Type.Array(Type.Integer({ minimum: 0 })),
  },
  { title: 'KeepCheckpointsResponse' },
);
export type KeepCheckpointsResponse = Static<typeof KeepCheckpointsResponseSchema>;

/** DELETE /preview/models/{model_id}/checkpoints. */
export const DeleteCheckpointsRequestSchema = Type.Object(
  { steps: Type.Array(NamedStepSchema, { description: 'Steps to delete. Unknown steps are ignored.' }) },
  { title: 'DeleteCheckpointsRequest', additionalProperties: false },
);
export type DeleteCheckpointsRequest = Static<typeof DeleteCheckpointsRequestSchema>;

export const DeleteCheckpointsResponseSchema = Type.Object(
  {
    deleted_count: Type.Integer({ minimum: 0 }),
    not_found_steps: Type.Array(Type.Integer({ minimum: 0 })),
  },
  { title: 'DeleteCheckpointsResponse' },
);
export type DeleteCheckpointsResponse = Static<typeof DeleteCheckpointsResponseSchema>;

/** POST /preview/models/{model_id}/log. */
export const LogTrajectoriesRequestSchema = Type.Object(
  {
    model_id: optionalNullable(Type.String()),
    trajectory_groups: Type.Array(TrajectoryGroupSchema),
    split: Type.String({ minLength: 1, maxLength: 128, pattern: WELL_FORMED_PATTERN }),
  },
  { title: 'LogTrajectoriesRequest', additionalProperties: false },
);
export type LogTrajectoriesRequest = Static<typeof LogTrajectoriesRequestSchema>;

export const LogTrajectoriesResponseSchema = Type.Object(
  { model_id: Type.String(), num_trajectories: Type.Integer({ minimum: 0, description: 'Total over all groups.' }) },
  { title: 'LogTrajectoriesResponse' },
);
export type LogTrajectoriesResponse = Static<typeof LogTrajectoriesResponseSchema>;

/**
 * POST /preview/training-jobs. An empty list of groups is valid: the job trains nothing and the step
 * advances.
 */
export const CreateTrainingJobRequestSchema = Type.Object(
  {
    model_id: Type.String(),
    trajectory_groups: Type.Array(TrajectoryGroupSchema),
    experimental_config: optionalNullable(TrainingConfigSchema),
    config: optionalNullable(TrainingConfigSchema),
  },
  { title: 'CreateTrainingJobRequest', additionalProperties: false },
);
export type CreateTrainingJobRequest = Static<typeof CreateTrainingJobRequestSchema>;

const JobStatusSchema = Type.Enum(['queued', 'running', 'succeeded', 'failed', 'cancelled'], {
  description: 'The last three values are final.',
});
export type JobStatus = Static<typeof JobStatusSchema>;

const JobWarningSchema = Type.Object(
  {
    code: Type.String({ description: 'One of a fixed set; see docs/reference/training-api.md.' }),
    message: Type.String({ description: 'Observation.' }),
    value: Type.Number({
      description: 'Measured value: a rate, a fraction, nats or a count, as stated in the message.',
    }),
    suggestion: Type.String({ description: 'Recommended action.' }),
  },
  { title: 'JobWarning', description: 'A problem that makes training wrong or empty without being an error.' },
);
export type JobWarningObject = Static<typeof JobWarningSchema>;

const UnixSecondsOrNull = (description: string) => nullable(Type.Integer(), { description });

const WaitingForSchema = Type.Object(
  {
    code: Type.Enum(['turn', 'resume', 'base_model'], {
      description:
        '`turn`: earlier jobs, of its model or of others. `resume`: the job is paused. `base_model`: no running trainer has its base model, or it is being fetched from the hub.',
    }),
    message: Type.String(),
  },
  { title: 'WaitingFor', description: 'Reason why a queued job is waiting.' },
);
export type WaitingForObject = Static<typeof WaitingForSchema>;

export const TrainingJobSchema = Type.Object(
  {
    id: Type.String(),
    model_id: Type.String(),
    kind: Type.Enum(['rl', 'sft']),
    status: JobStatusSchema,
    is_paused: Type.Boolean({
      description: 'A paused job is queued until it is resumed. Later jobs of its model wait for it.',
    }),
    waiting_for: nullable(WaitingForSchema, { description: 'Null while the job runs, and after it ended.' }),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    started_at: UnixSecondsOrNull('Unix seconds of the first start; null before the start.'),
    finished_at: UnixSecondsOrNull('Unix seconds; null before the end.'),
    data_removed_at: UnixSecondsOrNull(
      'Unix seconds when its training data were removed (`--trajectory-days` after the end of the job); null while they are kept.',
    ),
    start_step: nullable(Type.Integer(), { description: 'Step that the job trains on; null before the first start.' }),
    error_message: nullable(Type.String(), { description: 'Reason why the job failed or was cancelled.' }),
    config: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description: 'All settings, including defaults.',
    }),
    changed_config_keys: Type.Array(Type.String(), { description: 'Keys of `config` whose values are not defaults.' }),
    training_data: nullable(
      Type.Object({
        url: Type.String({ description: '`training_data_url` without its query, user and inline data.' }),
        num_lines: Type.Integer({ minimum: 1, description: 'Number of conversations.' }),
        held_out: nullable(
          Type.Object({
            url: nullable(Type.String(), {
              description: '`held_out_data_url`, shown likewise; null for a share of the conversations above.',
            }),
            num_lines: Type.Integer({ minimum: 1, description: 'Number of held-out conversations.' }),
            num_used: Type.Integer({ minimum: 1, description: 'Of these, at most `held_out_examples` are measured.' }),
          }),
          { description: 'Conversations that are measured and not trained; null: none.' },
        ),
      }),
      { description: 'Data of a supervised job. Null for jobs on trajectories, and for jobs of earlier versions.' },
    ),
    ignored_config_keys: Type.Array(Type.String(), {
      description: 'Keys of settings without effect: unknown to this version, meant for other trainers, or unused.',
    }),
    num_gradient_steps_done: Type.Integer({ minimum: 0 }),
    counts: nullable(Type.Unsafe<Record<string, unknown>>({ type: 'object' }), {
      description: 'Counts of submitted, trained and dropped data from `training_started`; null before that event.',
    }),
    group_outcomes: nullable(Type.Array(Type.String()), {
      description:
        'Outcome of each submitted group, in order: `trained`, or the reason why it was not trained. Null before the start.',
    }),
    warnings: Type.Array(JobWarningSchema, {
      description: 'Warnings in order of occurrence, each code at most once.',
    }),
  },
  { title: 'TrainingJob' },
);
export type TrainingJobObject = Static<typeof TrainingJobSchema>;
export const TrainingJobPageSchema = listPageSchema('TrainingJobPage', TrainingJobSchema);

/** Query of the first lines of a supervised job's data. */
export const TrainingExamplesQuerySchema = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 20, default: 3, description: 'Maximum number of lines.' })),
});
export type TrainingExamplesQuery = Static<typeof TrainingExamplesQuerySchema>;

export const TrainingExampleListSchema = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(Type.Unsafe<{ messages: Record<string, unknown>[]; tools?: unknown[] }>({ type: 'object' }), {
      description:
        'First conversations of the data, as submitted. Empty for jobs on trajectories, and if the data were removed.',
    }),
  },
  { title: 'TrainingExampleList' },
);
export type TrainingExampleList = Static<typeof TrainingExampleListSchema>;

/**
 * Order of events: `training_started` once, then `gradient_step` × num_sequences, then one end event; a
 * `warning` or `held_out` may come anywhere between.
 */
const TrainingEventTypeSchema = Type.Enum(
  ['training_started', 'gradient_step', 'held_out', 'warning', 'training_ended', 'training_failed'],
  {
    description:
      'One start, one event per gradient step, then exactly one end: `training_ended` or `training_failed`. Warnings, and measurements of held-out conversations, can appear in between.',
  },
);
export type TrainingEventType = Static<typeof TrainingEventTypeSchema>;

export const TrainingEventSchema = Type.Object(
  {
    id: Type.String({ description: 'Unique and stable.' }),
    type: TrainingEventTypeSchema,
    created_at: Type.Number({ description: 'Unix seconds, with milliseconds.' }),
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description:
        'At the start `num_sequences` and counts; per gradient step its metrics; for held-out conversations `loss` after `gradient_step` gradient steps; for a warning a JobWarning; at the end `num_gradient_steps` and `step`; for a failure `error_message`.',
    }),
  },
  { title: 'TrainingEvent' },
);
export type TrainingEventObject = Static<typeof TrainingEventSchema>;
export const TrainingEventPageSchema = listPageSchema('TrainingEventPage', TrainingEventSchema);

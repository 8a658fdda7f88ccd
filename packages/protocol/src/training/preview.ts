import Type, { type Static } from 'typebox';
import { LoraObjectSchema, LoraRequestSchema } from './lora.ts';
import {
  listPageSchema,
  NAME_PATTERN,
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
  },
  { title: 'CreateModelRequest', additionalProperties: false },
);
export type CreateModelRequest = Static<typeof CreateModelRequestSchema>;

export const ModelObjectSchema = Type.Object(
  {
    id: Type.String({ description: 'Names the model in the other routes of the preview API.' }),
    entity: Type.String({ description: "Never null: the caller's own entity when the request had none." }),
    project: Type.String(),
    name: Type.String(),
    base_model: Type.String(),
    run_id: Type.String({ description: 'Names its metrics, which are kept as long as the model.' }),
    lora: LoraObjectSchema,
  },
  { title: 'ModelObject' },
);
export type ModelObject = Static<typeof ModelObjectSchema>;

export const DeleteModelResponseSchema = Type.Object(
  {
    model_id: Type.String(),
    deleted_checkpoints: Type.Integer({ minimum: 0 }),
    deleted_run: Type.Boolean({ description: 'Whether its metrics went with it, also those at a tracker outside.' }),
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
    step: Type.Integer({ minimum: 0, description: 'Completed jobs of the model; 0 is the untouched base model.' }),
    metrics: Type.Unsafe<Record<string, number>>({
      type: 'object',
      additionalProperties: { type: 'number' },
      description: 'Means of the job (`train/…`) and of logged trajectories (`<split>/…`).',
    }),
    size_bytes: nullable(Type.Integer({ minimum: 0 }), {
      description:
        "Bytes of its files without the optimizer's state; null for the untouched base model, and before they are measured.",
    }),
    optimizer_bytes: nullable(Type.Integer({ minimum: 0 }), {
      description: "Bytes of the optimizer's state; 0 after it was removed. Null as `size_bytes`.",
    }),
    is_marked: Type.Boolean({ description: 'Whether a user marked it: the policy never removes it.' }),
    kept_for: nullable(Type.Array(Type.Enum(KEEP_REASONS)), {
      description:
        'Reasons why `--keep-checkpoints` keeps it; without one it is removed soon. Null when the service keeps all checkpoints, and for a removed one.',
    }),
    removed_at: nullable(Type.Integer(), {
      description: 'When the policy removed it, in Unix seconds; null for one that is there.',
    }),
  },
  { title: 'Checkpoint', description: 'What is listed can be sampled from, unless it has `removed_at`.' },
);
export type CheckpointObject = Static<typeof CheckpointSchema>;
export const CheckpointPageSchema = listPageSchema('CheckpointPage', CheckpointSchema);

/** GET /preview/models/{model_id}/checkpoints. */
export const CheckpointPageQuerySchema = Type.Object({
  ...PageQuerySchema.properties,
  removed: Type.Optional(
    Type.Boolean({ description: 'Lists those that the policy removed and that can still be restored, instead.' }),
  ),
});
export type CheckpointPageQuery = Static<typeof CheckpointPageQuerySchema>;

/** POST /preview/models/{model_id}/checkpoints/keep. */
export const KeepCheckpointsRequestSchema = Type.Object(
  {
    steps: Type.Array(NamedStepSchema, { description: 'Steps to mark; a removed one is restored.' }),
    is_kept: Type.Optional(
      Type.Boolean({ default: true, description: 'False: takes the marks away, and the policy decides again.' }),
    ),
  },
  { title: 'KeepCheckpointsRequest', additionalProperties: false },
);
export type KeepCheckpointsRequest = Static<typeof KeepCheckpointsRequestSchema>;

export const KeepCheckpointsResponseSchema = Type.Object(
  {
    steps: Type.Array(Type.Integer({ minimum: 0 }), { description: 'Steps that are now as requested.' }),
    restored_steps: Type.Array(Type.Integer({ minimum: 0 }), { description: 'Those of them that were restored.' }),
    not_found_steps: Type.Array(Type.Integer({ minimum: 0 })),
  },
  { title: 'KeepCheckpointsResponse' },
);
export type KeepCheckpointsResponse = Static<typeof KeepCheckpointsResponseSchema>;

/** DELETE /preview/models/{model_id}/checkpoints. */
export const DeleteCheckpointsRequestSchema = Type.Object(
  { steps: Type.Array(NamedStepSchema, { description: 'Steps to delete; unknown ones are no error.' }) },
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
  { model_id: Type.String(), num_trajectories: Type.Integer({ minimum: 0, description: 'Over all groups.' }) },
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
  description: 'The last three are final.',
});
export type JobStatus = Static<typeof JobStatusSchema>;

const JobWarningSchema = Type.Object(
  {
    code: Type.String({ description: 'One of a closed set: see docs/reference/training-api.md.' }),
    message: Type.String({ description: 'What was seen.' }),
    value: Type.Number({ description: 'What was measured: a rate, a share, nats, a count; the message says which.' }),
    suggestion: Type.String({ description: 'What to do about it.' }),
  },
  { title: 'JobWarning', description: 'What makes training wrong or empty without being an error.' },
);
export type JobWarningObject = Static<typeof JobWarningSchema>;

const UnixSecondsOrNull = (description: string) => nullable(Type.Integer(), { description });

const WaitingForSchema = Type.Object(
  {
    code: Type.Enum(['turn', 'resume', 'base_model'], {
      description:
        '`turn`: jobs before it, of its model or of others; `resume`: it is paused; `base_model`: no trainer that runs now was given its base model.',
    }),
    message: Type.String(),
  },
  { title: 'WaitingFor', description: 'What a job in the queue waits for.' },
);
export type WaitingForObject = Static<typeof WaitingForSchema>;

export const TrainingJobSchema = Type.Object(
  {
    id: Type.String(),
    model_id: Type.String(),
    kind: Type.Enum(['rl', 'sft']),
    status: JobStatusSchema,
    is_paused: Type.Boolean({
      description: 'A paused job is queued and waits for its resume; later jobs of its model wait for it.',
    }),
    waiting_for: nullable(WaitingForSchema, { description: 'Null while it runs, and when it has ended.' }),
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    started_at: UnixSecondsOrNull('Unix seconds of the first start; null before it.'),
    finished_at: UnixSecondsOrNull('Unix seconds; null before the end.'),
    data_removed_at: UnixSecondsOrNull(
      'Unix seconds; when its training data were removed, as old ones of ended jobs are (`--trajectory-days`); null while they are kept.',
    ),
    start_step: nullable(Type.Integer(), { description: 'Step that it trains on; null before the first start.' }),
    error_message: nullable(Type.String(), { description: 'Why it failed or was cancelled.' }),
    config: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description: 'Every setting, with the defaults filled in.',
    }),
    ignored_config_keys: Type.Array(Type.String(), {
      description:
        'Keys of the settings that have no effect: unknown to this version, of other trainers, or beyond what is used.',
    }),
    num_gradient_steps_done: Type.Integer({ minimum: 0 }),
    counts: nullable(Type.Unsafe<Record<string, unknown>>({ type: 'object' }), {
      description: 'What was submitted, trained and dropped, as `training_started` said; null before it.',
    }),
    group_outcomes: nullable(Type.Array(Type.String()), {
      description: 'Of each submitted group, in order: `trained`, or the reason why not. Null before the start.',
    }),
    warnings: Type.Array(JobWarningSchema, {
      description: 'In the order in which they arose, each code at most once.',
    }),
  },
  { title: 'TrainingJob' },
);
export type TrainingJobObject = Static<typeof TrainingJobSchema>;
export const TrainingJobPageSchema = listPageSchema('TrainingJobPage', TrainingJobSchema);

/**
 * Order of events: `training_started` once, then `gradient_step` × num_sequences, then one end event; a
 * `warning` may come anywhere between.
 */
const TrainingEventTypeSchema = Type.Enum(
  ['training_started', 'gradient_step', 'warning', 'training_ended', 'training_failed'],
  {
    description:
      'Started once, then one gradient step each, then exactly one end: `training_ended` or `training_failed`; warnings in between.',
  },
);
export type TrainingEventType = Static<typeof TrainingEventTypeSchema>;

export const TrainingEventSchema = Type.Object(
  {
    id: Type.String({ description: 'Unique and stable.' }),
    type: TrainingEventTypeSchema,
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description:
        '`num_sequences` and counts at the start; numbers of each gradient step; a JobWarning; `num_gradient_steps` and `step` at the end; `error_message` of a failure.',
    }),
  },
  { title: 'TrainingEvent' },
);
export type TrainingEventObject = Static<typeof TrainingEventSchema>;
export const TrainingEventPageSchema = listPageSchema('TrainingEventPage', TrainingEventSchema);

import Type, { type Static } from 'typebox';
import { listPageSchema, NAME_PATTERN, nullable, optionalNullable } from './schema.ts';
import { TrainingConfigSchema } from './training-config.ts';
import { TrajectoryGroupSchema } from './trajectory.ts';

/** The preview API under /v1/preview: models, checkpoints, logs, training jobs. */

const PartOfName = Type.String({ minLength: 1, maxLength: 128, pattern: NAME_PATTERN });

/** POST /preview/models. */
export const CreateModelRequestSchema = Type.Object(
  {
    entity: optionalNullable(PartOfName),
    project: PartOfName,
    name: PartOfName,
    base_model: Type.String({ minLength: 1 }),
    return_existing: optionalNullable(Type.Boolean()),
  },
  { title: 'CreateModelRequest' },
);
export type CreateModelRequest = Static<typeof CreateModelRequestSchema>;

export const ModelObjectSchema = Type.Object(
  {
    id: Type.String({ description: 'Names the model in the other routes of the preview API.' }),
    entity: Type.String({ description: "Never null: the caller's own entity when the request had none." }),
    project: Type.String(),
    name: Type.String(),
    base_model: Type.String(),
    run_id: nullable(Type.String(), { description: 'The tracking run; null without tracking.' }),
  },
  { title: 'ModelObject' },
);
export type ModelObject = Static<typeof ModelObjectSchema>;

export const DeleteModelResponseSchema = Type.Object(
  {
    model_id: Type.String(),
    deleted_checkpoints: Type.Integer({ minimum: 0 }),
    deleted_run: Type.Boolean({ description: 'False without tracking.' }),
  },
  { title: 'DeleteModelResponse' },
);
export type DeleteModelResponse = Static<typeof DeleteModelResponseSchema>;

const CheckpointSchema = Type.Object(
  {
    id: Type.String(),
    step: Type.Integer({ minimum: 0, description: 'Completed jobs of the model; 0 is the untouched base model.' }),
    metrics: Type.Unsafe<Record<string, number>>({
      type: 'object',
      additionalProperties: { type: 'number' },
      description: 'Means of the job (`train/…`) and of logged trajectories (`<split>/…`).',
    }),
  },
  { title: 'Checkpoint', description: 'What is listed can be sampled from.' },
);
export type CheckpointObject = Static<typeof CheckpointSchema>;
export const CheckpointPageSchema = listPageSchema('CheckpointPage', CheckpointSchema);

/** DELETE /preview/models/{model_id}/checkpoints. */
export const DeleteCheckpointsRequestSchema = Type.Object(
  { steps: Type.Array(Type.Integer({ minimum: 0 }), { description: 'Steps to delete; unknown ones are no error.' }) },
  { title: 'DeleteCheckpointsRequest' },
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
    split: Type.String({ minLength: 1, maxLength: 128 }),
  },
  { title: 'LogTrajectoriesRequest' },
);
export type LogTrajectoriesRequest = Static<typeof LogTrajectoriesRequestSchema>;

export const LogTrajectoriesResponseSchema = Type.Object(
  { model_id: Type.String(), num_trajectories: Type.Integer({ minimum: 0, description: 'Over all groups.' }) },
  { title: 'LogTrajectoriesResponse' },
);
export type LogTrajectoriesResponse = Static<typeof LogTrajectoriesResponseSchema>;

/** POST /preview/training-jobs. An empty list of groups is legal: the job trains nothing and the step advances. */
export const CreateTrainingJobRequestSchema = Type.Object(
  {
    model_id: Type.String(),
    trajectory_groups: Type.Array(TrajectoryGroupSchema),
    experimental_config: optionalNullable(TrainingConfigSchema),
  },
  { title: 'CreateTrainingJobRequest' },
);
export type CreateTrainingJobRequest = Static<typeof CreateTrainingJobRequestSchema>;

const JobStatusSchema = Type.Enum(['queued', 'running', 'succeeded', 'failed', 'cancelled'], {
  description: 'The last three are final.',
});
export type JobStatus = Static<typeof JobStatusSchema>;

export const TrainingJobSchema = Type.Object(
  {
    id: Type.String(),
    model_id: Type.String(),
    status: JobStatusSchema,
    created_at: Type.Integer({ description: 'Unix seconds.' }),
    ignored_config_keys: Type.Array(Type.String(), {
      description: 'Keys of the settings that this version does not know, or does not use.',
    }),
  },
  { title: 'TrainingJob' },
);
export type TrainingJobObject = Static<typeof TrainingJobSchema>;

/** `training_started` once, then `gradient_step` × num_sequences, then one end event. */
const TrainingEventTypeSchema = Type.Enum(['training_started', 'gradient_step', 'training_ended', 'training_failed'], {
  description:
    'Started once, then one gradient step each, then exactly one end: `training_ended` or `training_failed`.',
});
export type TrainingEventType = Static<typeof TrainingEventTypeSchema>;

const TrainingEventSchema = Type.Object(
  {
    id: Type.String({ description: 'Unique and stable.' }),
    type: TrainingEventTypeSchema,
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description:
        '`num_sequences` and counts at the start; numbers of each gradient step; `error_message` of a failure.',
    }),
  },
  { title: 'TrainingEvent' },
);
export type TrainingEventObject = Static<typeof TrainingEventSchema>;
export const TrainingEventPageSchema = listPageSchema('TrainingEventPage', TrainingEventSchema);

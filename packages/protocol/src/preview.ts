import Type, { type Static } from 'typebox';
import { NAME_PATTERN, optionalNullable } from './schema.ts';
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

export interface ModelObject {
  id: string;
  /** Never null: the caller's default entity when the request had none. */
  entity: string;
  project: string;
  name: string;
  base_model: string;
  /** The tracking run, null without tracking. */
  run_id: string | null;
}

export interface DeleteModelResponse {
  model_id: string;
  deleted_checkpoints: number;
  deleted_run: boolean;
}

/** One usable checkpoint; step 0 is the untouched base model. */
export interface CheckpointObject {
  id: string;
  step: number;
  metrics: Record<string, number>;
}

/** DELETE /preview/models/{model_id}/checkpoints. */
export const DeleteCheckpointsRequestSchema = Type.Object(
  { steps: Type.Array(Type.Integer({ minimum: 0 })) },
  { title: 'DeleteCheckpointsRequest' },
);
export type DeleteCheckpointsRequest = Static<typeof DeleteCheckpointsRequestSchema>;
export interface DeleteCheckpointsResponse {
  deleted_count: number;
  not_found_steps: number[];
}

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

export type JobStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled';

export interface TrainingJobObject {
  id: string;
  model_id: string;
  status: JobStatus;
  /** Unix seconds. */
  created_at: number;
  /** Keys of `experimental_config` this version does not know. */
  ignored_config_keys: string[];
}

/** `training_started` once, then `gradient_step` × num_sequences, then one end event. */
export type TrainingEventType = 'training_started' | 'gradient_step' | 'training_ended' | 'training_failed';
export interface TrainingEventObject {
  id: string;
  type: TrainingEventType;
  data: Record<string, unknown>;
}

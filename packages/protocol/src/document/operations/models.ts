import Type from 'typebox';

import { MessagesErrorSchema } from '../../inference/messages.ts';
import { ModelCardSchema, ModelListSchema } from '../../service/models.ts';
import { ErrorBodySchema } from '../../shape/errors.ts';
import {
  CheckpointPageQuerySchema,
  CheckpointPageSchema,
  CreateModelRequestSchema,
  UpdateModelRequestSchema,
  DeleteCheckpointsRequestSchema,
  DeleteCheckpointsResponseSchema,
  DeleteModelResponseSchema,
  KeepCheckpointsRequestSchema,
  KeepCheckpointsResponseSchema,
  LogTrajectoriesRequestSchema,
  LogTrajectoriesResponseSchema,
  ModelObjectSchema,
} from '../../training/preview.ts';
import { ModelDetailsSchema } from '../../reading/models.ts';
import { BODY, IDEMPOTENCY, KEY, LIST, MODEL_ID, MODEL_NAME, type Operation } from './operation-parts.ts';

/** Errors; the second is for clients with the header `anthropic-version`. */
const MODEL_ERROR = Type.Union([ErrorBodySchema, MessagesErrorSchema]);

/** Models and their checkpoints. */
export const MODEL_OPERATIONS: readonly Operation[] = [
  {
    id: 'listModels',
    method: 'get',
    paths: ['/v1/models'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'List the models',
    description:
      'Lists the base model, then each trained model of the caller: first its bare name, which means its latest version, then each checkpoint.',
    answer: ModelListSchema,
    error: MODEL_ERROR,
    faults: KEY,
  },
  {
    id: 'retrieveModel',
    method: 'get',
    paths: ['/v1/models/{model}'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Read a model by any of its names',
    description:
      'Slashes in the name may be sent plain or encoded. The answer names the version to which the name resolves.',
    pathParameters: { model: 'Name as in `model` of a chat request.' },
    answer: ModelCardSchema,
    error: MODEL_ERROR,
    faults: [...KEY, ...MODEL_NAME, 'request.not_found'],
  },
  {
    id: 'createModel',
    method: 'post',
    paths: ['/v1/preview/models'],
    scope: 'training',
    tag: 'Training',
    summary: 'Register a model to train',
    description:
      'A new model is at step 0, which is the unchanged base model or its initial checkpoint. It can be sampled from immediately. If `--hub` allows it, `base_model` may be a model of the Hugging Face hub (`ORG/NAME`, `ORG/NAME:QUANTISATION`): the service fetches it, and until then requests get 503 with `Retry-After`, and jobs wait.',
    isIdempotent: true,
    body: CreateModelRequestSchema,
    answer: ModelObjectSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.unknown_model', 'request.model_exists'],
  },
  {
    id: 'updateModel',
    method: 'patch',
    paths: ['/v1/preview/models/{model_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Change tags, notes and archive of a model',
    description: 'All fields are changed, or none. Absent and null fields stay as they are; a repeat changes nothing.',
    pathParameters: MODEL_ID,
    body: UpdateModelRequestSchema,
    answer: ModelDetailsSchema,
    faults: [...KEY, ...BODY, 'request.not_found', 'request.model_in_training'],
  },
  {
    id: 'deleteModel',
    method: 'delete',
    paths: ['/v1/preview/models/{model_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Delete a model with all its checkpoints',
    description: 'Queued and running jobs of the model end with `training_failed`. The name can then be used again.',
    pathParameters: MODEL_ID,
    isIdempotent: true,
    answer: DeleteModelResponseSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'listCheckpoints',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/checkpoints'],
    scope: 'training',
    tag: 'Training',
    summary: 'List the checkpoints of a model',
    description: 'Sorted by step. `limit=1&order=desc` returns the newest step.',
    pathParameters: MODEL_ID,
    query: CheckpointPageQuerySchema,
    answer: CheckpointPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'deleteCheckpoints',
    method: 'delete',
    paths: ['/v1/preview/models/{model_id}/checkpoints'],
    scope: 'training',
    tag: 'Training',
    summary: 'Delete checkpoints by their steps',
    description: 'Step numbers are never reused. Deleting a missing checkpoint is not an error.',
    pathParameters: MODEL_ID,
    isIdempotent: true,
    body: DeleteCheckpointsRequestSchema,
    answer: DeleteCheckpointsResponseSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'keepCheckpoints',
    method: 'post',
    paths: ['/v1/preview/models/{model_id}/checkpoints/keep'],
    scope: 'training',
    tag: 'Training',
    summary: 'Mark checkpoints to keep, or restore removed ones',
    description:
      '`--keep-checkpoints` never removes a marked checkpoint. A removed checkpoint can be restored within one day.',
    pathParameters: MODEL_ID,
    isIdempotent: true,
    body: KeepCheckpointsRequestSchema,
    answer: KeepCheckpointsResponseSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'logTrajectories',
    method: 'post',
    paths: ['/v1/preview/models/{model_id}/log'],
    scope: 'training',
    tag: 'Training',
    summary: 'Log trajectories, with their means as metrics',
    description:
      'For split S, the latest checkpoint receives `S/reward`, `S/reward_std_dev`, `S/exception_rate`, `S/<metric>` and `S/group_<metric>`.',
    pathParameters: MODEL_ID,
    isIdempotent: true,
    body: LogTrajectoriesRequestSchema,
    answer: LogTrajectoriesResponseSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'server.unavailable'],
  },
];

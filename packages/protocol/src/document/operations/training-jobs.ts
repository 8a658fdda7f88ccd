import { PageQuerySchema } from '../../shape/schema.ts';
import {
  CreateTrainingJobRequestSchema,
  TrainingEventPageSchema,
  TrainingEventSchema,
  TrainingJobPageSchema,
  TrainingJobSchema,
} from '../../training/preview.ts';
import { CreateSftTrainingJobRequestSchema } from '../../training/sft.ts';
import { BODY, IDEMPOTENCY, JOB_ID, KEY, LIST, MODEL_ID, type Operation } from './operation-parts.ts';

/** Submission of training jobs. */
export const NEW_TRAINING_JOB_OPERATIONS: readonly Operation[] = [
  {
    id: 'createTrainingJob',
    method: 'post',
    paths: ['/v1/preview/training-jobs'],
    scope: 'training',
    tag: 'Training',
    summary: 'Train a model on reward-labelled rollouts',
    description:
      'Validates the request, queues the job and answers immediately. Jobs of one model run one after another. When a job ends, the name of the model refers to the new step.',
    isIdempotent: true,
    body: CreateTrainingJobRequestSchema,
    answer: TrainingJobSchema,
    faults: [
      ...KEY,
      ...BODY,
      ...IDEMPOTENCY,
      'rate_limit_exceeded',
      'request.not_found',
      'request.conflict',
      'trainer.config_invalid',
      'server.unavailable',
    ],
  },
  {
    id: 'createSftTrainingJob',
    method: 'post',
    paths: ['/v1/preview/sft-training-jobs'],
    scope: 'training',
    tag: 'Training',
    summary: 'Train a model on conversations',
    description:
      'Reads and validates every line of the data, queues the job and answers immediately. The other job routes apply too. Each assistant turn is trained up to and including its end-of-turn token.',
    isIdempotent: true,
    body: CreateSftTrainingJobRequestSchema,
    answer: TrainingJobSchema,
    faults: [
      ...KEY,
      ...BODY,
      ...IDEMPOTENCY,
      'rate_limit_exceeded',
      'request.not_found',
      'request.conflict',
      'trainer.config_invalid',
    ],
  },
];

/** Training jobs after their submission. */
export const TRAINING_JOB_OPERATIONS: readonly Operation[] = [
  {
    id: 'retrieveTrainingJob',
    method: 'get',
    paths: ['/v1/preview/training-jobs/{job_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Read a training job',
    description:
      'Returns the status, the complete settings and the outcome of each group. The numbers are in the events.',
    pathParameters: JOB_ID,
    answer: TrainingJobSchema,
    faults: [...KEY, 'request.not_found'],
  },
  {
    id: 'listTrainingJobs',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/training-jobs'],
    scope: 'training',
    tag: 'Training',
    summary: 'List the training jobs of a model',
    description: 'In order of submission, including ended jobs.',
    pathParameters: MODEL_ID,
    query: PageQuerySchema,
    answer: TrainingJobPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'cancelTrainingJob',
    method: 'post',
    paths: ['/v1/preview/training-jobs/{job_id}/cancel'],
    scope: 'training',
    tag: 'Training',
    summary: 'Cancel a training job',
    description:
      'The job ends with `training_failed` and a message about the cancellation. The model stays at its last step. Cancelling a cancelled job has no effect.',
    pathParameters: JOB_ID,
    isIdempotent: true,
    answer: TrainingJobSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.job_ended'],
  },
  {
    id: 'retryTrainingJob',
    method: 'post',
    paths: ['/v1/preview/training-jobs/{job_id}/retry'],
    scope: 'training',
    tag: 'Training',
    summary: 'Try a failed or cancelled training job again',
    description:
      'Queues a new job with the same data and settings, and returns it. Its rollouts are listed again under the new job.',
    pathParameters: JOB_ID,
    isIdempotent: true,
    answer: TrainingJobSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.conflict', 'request.invalid'],
  },
  {
    id: 'pauseTrainingJob',
    method: 'post',
    paths: ['/v1/preview/training-jobs/{job_id}/pause'],
    scope: 'training',
    tag: 'Training',
    summary: 'Pause a training job',
    description:
      'A running job stops immediately and keeps its finished gradient steps. Later jobs of the same model wait; jobs of other models do not. Pausing a paused job has no effect.',
    pathParameters: JOB_ID,
    isIdempotent: true,
    answer: TrainingJobSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.job_ended'],
  },
  {
    id: 'resumeTrainingJob',
    method: 'post',
    paths: ['/v1/preview/training-jobs/{job_id}/resume'],
    scope: 'training',
    tag: 'Training',
    summary: 'Resume a paused training job',
    description:
      'The job continues after its last finished gradient step. Resuming a job that is not paused has no effect.',
    pathParameters: JOB_ID,
    isIdempotent: true,
    answer: TrainingJobSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.job_ended'],
  },
  {
    id: 'listTrainingEvents',
    method: 'get',
    paths: ['/v1/preview/training-jobs/{job_id}/events'],
    scope: 'training',
    tag: 'Training',
    summary: 'List the events of a training job, oldest first',
    description:
      'Poll with `after` until `training_ended` or `training_failed`; every job ends with one of them. `order` has no effect. With `Accept: text/event-stream`, events are sent as they happen: the stream ends after the last event, and resumes after `Last-Event-ID` when a connection is lost.',
    pathParameters: JOB_ID,
    query: PageQuerySchema,
    answer: TrainingEventPageSchema,
    chunk: TrainingEventSchema,
    isNamedStream: true,
    otherAnswers: { 204: { description: 'The stream was requested after the last event: there are no more.' } },
    faults: [...KEY, ...LIST],
  },
];

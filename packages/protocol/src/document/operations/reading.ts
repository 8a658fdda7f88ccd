import { ServiceEventPageSchema, ServiceEventQuerySchema, ServiceEventSchema } from '../../reading/events.ts';
import { HostsSchema } from '../../reading/hosts.ts';
import { TrainingJobPageQuerySchema, TrainingQueueSchema } from '../../reading/jobs.ts';
import { ModelDetailsPageSchema, ModelDetailsSchema, ModelPageQuerySchema } from '../../reading/models.ts';
import { MetricListSchema, SeriesListSchema, SeriesQuerySchema } from '../../reading/series.ts';
import {
  TrajectoryContentSchema,
  TrajectoryPageQuerySchema,
  TrajectorySummaryPageSchema,
  TrajectoryTokensSchema,
} from '../../reading/trajectories.ts';
import { UsageListSchema, UsageQuerySchema } from '../../reading/usage.ts';
import { TrainingJobPageSchema } from '../../training/preview.ts';
import { KEY, LIST, MODEL_ID, type Operation } from './operation-parts.ts';

const TRAJECTORY_ID = { trajectory_id: 'Id of the trajectory.' };

/** Read-only operations on training progress and service activity. */
export const READ_OPERATIONS: readonly Operation[] = [
  {
    id: 'listTrainedModels',
    method: 'get',
    paths: ['/v1/preview/models'],
    scope: 'training',
    tag: 'Training',
    summary: 'List trained models with their status',
    description: 'In order of creation.',
    query: ModelPageQuerySchema,
    answer: ModelDetailsPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'retrieveTrainedModel',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Read the status of a trained model',
    description: 'Returns its latest checkpoint with metrics, and its jobs that have not ended.',
    pathParameters: MODEL_ID,
    answer: ModelDetailsSchema,
    faults: [...KEY, 'request.not_found'],
  },
  {
    id: 'listAllTrainingJobs',
    method: 'get',
    paths: ['/v1/preview/training-jobs'],
    scope: 'training',
    tag: 'Training',
    summary: 'List the training jobs of all models',
    description: 'In order of submission, including ended jobs. Jobs of deleted models are listed for a week.',
    query: TrainingJobPageQuerySchema,
    answer: TrainingJobPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'listTrainingQueue',
    method: 'get',
    paths: ['/v1/preview/training-queue'],
    scope: 'training',
    tag: 'Training',
    summary: 'List unfinished training jobs with their position in the queue',
    description: "Lists the jobs of the caller's entity. Positions also count the jobs of other entities.",
    answer: TrainingQueueSchema,
    faults: KEY,
  },
  {
    id: 'listMetrics',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/metrics'],
    scope: 'training',
    tag: 'Training',
    summary: 'List the metrics of a model',
    description: 'Each has its latest value. The series have all points.',
    pathParameters: MODEL_ID,
    answer: MetricListSchema,
    faults: [...KEY, 'request.not_found'],
  },
  {
    id: 'readSeries',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/series'],
    scope: 'training',
    tag: 'Training',
    summary: 'Read the metrics of a model over its steps',
    description:
      'Points of each metric in order. If there are more than `max_points`, neighbouring points are merged into one with their mean, minimum and maximum.',
    pathParameters: MODEL_ID,
    query: SeriesQuerySchema,
    answer: SeriesListSchema,
    faults: [...KEY, 'request.not_found', 'request.invalid'],
  },
  {
    id: 'listTrajectories',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/trajectories'],
    scope: 'training',
    tag: 'Training',
    summary: 'List the trajectories of a model',
    description:
      'Lists the trajectories of its jobs and logs, without their messages. `text` filters by message text; `prompt_digest` finds trajectories of the same prompt at other steps.',
    pathParameters: MODEL_ID,
    query: TrajectoryPageQuerySchema,
    answer: TrajectorySummaryPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'retrieveTrajectory',
    method: 'get',
    paths: ['/v1/preview/trajectories/{trajectory_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Read a trajectory with its messages',
    description: 'Returns the trajectory as submitted, with the other fields of its group.',
    pathParameters: TRAJECTORY_ID,
    answer: TrajectoryContentSchema,
    faults: [...KEY, 'request.not_found', 'store.blob_corrupt'],
  },
  {
    id: 'readTrajectoryTokens',
    method: 'get',
    paths: ['/v1/preview/trajectories/{trajectory_id}/tokens'],
    scope: 'training',
    tag: 'Training',
    summary: 'Read the tokens of a trajectory as trained or sampled',
    description:
      'Returns ids, texts, log-probabilities of sampler and trainer, advantage and weight for each gradient step that used the trajectory. They are kept for the newest trajectories of each model (`--token-trace-megabytes`). A trajectory that was not trained has its replies as sampled.',
    pathParameters: TRAJECTORY_ID,
    answer: TrajectoryTokensSchema,
    faults: [...KEY, 'request.not_found'],
  },
  {
    id: 'listServiceEvents',
    method: 'get',
    paths: ['/v1/preview/events'],
    scope: 'training',
    tag: 'Training',
    summary: 'List or stream events of models and jobs',
    description:
      'Events of all models and jobs of the entity in the last week. With `Accept: text/event-stream`, they are sent as they happen, and the stream resumes after `Last-Event-ID` when a connection is lost. A stream starts with an `id` without an event, so that nothing is lost before the first event either.',
    query: ServiceEventQuerySchema,
    answer: ServiceEventPageSchema,
    chunk: ServiceEventSchema,
    isNamedStream: true,
    faults: [...KEY, 'request.not_found', 'request.invalid'],
  },
  {
    id: 'readUsage',
    method: 'get',
    paths: ['/v1/preview/usage'],
    scope: 'training',
    tag: 'Service',
    summary: 'Read token usage by project, key, model, kind and day',
    description:
      "Usage of the caller's entity. Usage older than a day is counted at the start of its hour, so bounds on whole hours are exact.",
    query: UsageQuerySchema,
    answer: UsageListSchema,
    faults: [...KEY, 'request.invalid'],
  },
  {
    id: 'listHosts',
    method: 'get',
    paths: ['/v1/preview/hosts'],
    scope: 'admin',
    tag: 'Service',
    summary: 'Read the hosts of the service with their status',
    description:
      'Returns one sampling host per base model, with its KV cache and its vLLM servers, and the state of training and the store.',
    answer: HostsSchema,
    faults: KEY,
  },
];

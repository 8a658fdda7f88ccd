import { ServiceEventPageSchema, ServiceEventQuerySchema, ServiceEventSchema } from '../reading/events.ts';
import { HostsSchema } from '../reading/hosts.ts';
import { TrainingJobPageQuerySchema, TrainingQueueSchema } from '../reading/jobs.ts';
import { ModelDetailsPageSchema, ModelDetailsSchema, ModelPageQuerySchema } from '../reading/models.ts';
import { MetricListSchema, SeriesListSchema, SeriesQuerySchema } from '../reading/series.ts';
import {
  TrajectoryContentSchema,
  TrajectoryPageQuerySchema,
  TrajectorySummaryPageSchema,
  TrajectoryTokensSchema,
} from '../reading/trajectories.ts';
import { UsageListSchema, UsageQuerySchema } from '../reading/usage.ts';
import { TrainingJobPageSchema } from '../training/preview.ts';
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
    summary: 'Trained models, each with how it is',
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
    summary: 'How a trained model is',
    description: 'Its latest checkpoint with its metrics, and its jobs that have not ended.',
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
    summary: 'Training jobs of all models',
    description: 'In order of submission, ended ones included, those of deleted models for a week.',
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
    summary: 'Training jobs that have not ended, each with its place',
    description: 'Those of the own entity; the places count the jobs of others too.',
    answer: TrainingQueueSchema,
    faults: KEY,
  },
  {
    id: 'listMetrics',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/metrics'],
    scope: 'training',
    tag: 'Training',
    summary: 'Metrics of a model by name',
    description: 'Each with its latest value. Their points are in the series.',
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
    summary: 'Metrics of a model over its steps',
    description:
      'Points of each metric in order. Where there are more than `max_points`, neighbours become one, with their mean, least and most.',
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
    summary: 'Trajectories of a model, by reward if wished',
    description:
      'Those of its jobs and logs, without what they say. With `text`, those that say something; `prompt_digest` finds what became of the same prompt at other steps.',
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
    summary: 'A trajectory with what it says',
    description: 'As it was sent, with the rest of its group.',
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
    summary: 'The tokens of a trajectory as they were trained, or sampled',
    description:
      'Ids, texts, log-probabilities of sampler and trainer, advantage and weight, for each gradient step that it was in. The service keeps them for the newest ones of each model (`--token-trace-megabytes`). Of those that were not trained there are the replies, as they were sampled.',
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
    summary: 'What happened to models and jobs, or what happens',
    description:
      'Events of all models and jobs of the entity, of the last week. With `Accept: text/event-stream` they come as server-sent events while they happen, and after a lost connection from behind `Last-Event-ID` on; a stream begins with an `id` without an event, so that what comes before its first one is not lost either.',
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
    summary: 'Tokens by project, key, model, kind and day',
    description:
      'Of the own entity. What is older than a day counts at the beginning of its hour, so bounds that are whole hours are exact.',
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
    summary: 'The hosts of the service, and how they are',
    description:
      'One that samples for each base model, with its KV cache and the vLLM servers where those sample; and how training and the store are.',
    answer: HostsSchema,
    faults: KEY,
  },
];

import { BaseModelListSchema, BaseModelObjectSchema, FetchBaseModelRequestSchema } from '../../training/base-models.ts';
import { BODY, KEY, type Operation, WRITES } from './operation-parts.ts';

/** Base models, and those of a hub that the service fetches. */
export const BASE_MODEL_OPERATIONS: readonly Operation[] = [
  {
    id: 'listBaseModels',
    method: 'get',
    paths: ['/v1/preview/base-models'],
    scope: 'training',
    tag: 'Training',
    summary: 'List the base models',
    description: 'Lists the served base models, then those of the hub that are being fetched or could not be fetched.',
    answer: BaseModelListSchema,
    faults: KEY,
  },
  {
    id: 'fetchBaseModel',
    method: 'post',
    paths: ['/v1/preview/base-models'],
    scope: 'training',
    tag: 'Training',
    summary: 'Fetch a base model from the hub',
    description:
      'Queues a job that downloads and serves the model, if `--hub` allows it. A repeat returns its state, or retries it after a failure. Registering a model on a base model of the hub does the same.',
    body: FetchBaseModelRequestSchema,
    answer: BaseModelObjectSchema,
    faults: [...KEY, ...BODY, ...WRITES, 'request.unknown_model'],
  },
  {
    id: 'cancelBaseModel',
    method: 'post',
    paths: ['/v1/preview/base-models/cancel'],
    scope: 'training',
    tag: 'Training',
    summary: 'Stop fetching a base model',
    description: 'Its bytes stay in the cache of the hub: a later request continues the download.',
    body: FetchBaseModelRequestSchema,
    answer: BaseModelObjectSchema,
    faults: [...KEY, ...BODY, ...WRITES, 'request.not_found', 'request.job_ended'],
  },
];

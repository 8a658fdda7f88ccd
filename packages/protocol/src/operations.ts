import Type, { type TObject, type TSchema } from 'typebox';

import {
  ArtifactPageSchema,
  ArtifactSchema,
  DeleteArtifactResponseSchema,
  JSON_LINES_MEDIA_TYPES,
  UploadArtifactQuerySchema,
} from './artifact.ts';
import { ChatCompletionRequestSchema } from './chat-completion.ts';
import { ChatCompletionChunkSchema, ChatCompletionSchema } from './chat-response.ts';
import { CompletionChunkSchema, CompletionRequestSchema, CompletionSchema } from './completion.ts';
import {
  ADAPTER_FILES,
  AdapterFileSchema,
  AdapterPageSchema,
  AdapterSchema,
  CreateAdapterRequestSchema,
  CreateExportRequestSchema,
  DeletedSchema,
  ExportPageSchema,
  ExportSchema,
} from './exchange.ts';
import { ApiKeyListSchema, ApiKeySchema, CreatedKeySchema, CreateKeyRequestSchema } from './keys.ts';
import {
  CountTokensRequestSchema,
  CountTokensSchema,
  MessageEventSchema,
  MessageSchema,
  MessagesErrorSchema,
  MessagesRequestSchema,
} from './messages.ts';
import { ModelCardSchema, ModelListSchema } from './models.ts';
import {
  CheckpointPageSchema,
  CreateModelRequestSchema,
  CreateTrainingJobRequestSchema,
  DeleteCheckpointsRequestSchema,
  DeleteCheckpointsResponseSchema,
  DeleteModelResponseSchema,
  LogTrajectoriesRequestSchema,
  LogTrajectoriesResponseSchema,
  ModelObjectSchema,
  TrainingEventPageSchema,
  TrainingJobPageSchema,
  TrainingJobSchema,
} from './preview.ts';
import { PageQuerySchema } from './schema.ts';
import { CreateSftTrainingJobRequestSchema } from './sft.ts';
import { HealthSchema, SystemCheckSchema, VersionSchema } from './service-status.ts';
import {
  DetokenizeRequestSchema,
  DetokenizeResponseSchema,
  TokenizeRequestSchema,
  TokenizeResponseSchema,
} from './tokenize.ts';

/** What a key must be allowed to do; `public` routes take no key. */
export type OperationScope = 'public' | 'inference' | 'training' | 'admin';

/** One thing that the API does: what it takes, what it answers, and which faults it can end in. */
export interface Operation {
  /** Unique; the name of a method in generated clients. */
  readonly id: string;
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** Path templates, the canonical one first: all of them do the same. */
  readonly paths: readonly [string, ...string[]];
  readonly scope: OperationScope;
  readonly tag: 'Inference' | 'Training' | 'Service';
  readonly summary: string;
  readonly description: string;
  /** Words for each parameter of the path. */
  readonly pathParameters?: Readonly<Record<string, string>>;
  readonly query?: TObject;
  /** Whether `Idempotency-Key` makes a repeat harmless. */
  readonly isIdempotent?: boolean;
  readonly body?: TSchema;
  /** A body that is no JSON value: a file of one of these types. */
  readonly upload?: { readonly mediaTypes: readonly string[]; readonly description: string };
  /** The answer with status 200; text where it is a media type alone. */
  readonly answer: TSchema | { readonly mediaType: string };
  /** The events of a stream, for requests with `stream: true`. */
  readonly chunk?: TSchema;
  /** Whether the events of the stream have names; then no `[DONE]` ends it. */
  readonly isNamedStream?: boolean;
  /** An error inside the stream. Default `StreamError`. */
  readonly streamError?: TSchema;
  /** What errors answer. Default `ErrorBody`. */
  readonly error?: TSchema;
  /** Answers that are no fault and have another status than 200. */
  readonly otherAnswers?: Readonly<Record<number, { readonly description: string; readonly schema: TSchema }>>;
  /** Codes of the faults it can end in; what their statuses are the table of faults knows. */
  readonly faults: readonly string[];
}

const EVERY_ROUTE = ['request.malformed', 'request.headers_too_large', 'request.host_not_allowed', 'internal'];
const STORE = ['store.busy', 'store.unavailable', 'store.closed', 'store.corrupt'];
const WRITES = ['store.disk_full', 'store.constraint_violated'];
const KEY = ['request.unauthenticated', 'request.forbidden', ...STORE, ...EVERY_ROUTE];
const BODY = [
  'request.invalid_json',
  'request.invalid',
  'request.body_too_large',
  'request.unsupported_media_type',
  'request.timeout',
  'request.too_many',
];
const IDEMPOTENCY = ['request.idempotency_mismatch', 'request.idempotency_in_progress', ...WRITES];
const MODEL_NAME = ['request.unknown_model', 'request.ambiguous_model', 'request.conflict'];
const HOST = ['engine.host_lost', 'engine.internal'];
const SAMPLING = [
  ...MODEL_NAME,
  ...HOST,
  'request.unsupported',
  'context_length_exceeded',
  'engine.invalid_request',
  'engine.template_failed',
  'engine.overloaded',
  'engine.aborted',
  'engine.adapter_unreadable',
];
const LIST = ['request.not_found', 'request.invalid', 'store.cursor_unknown'];

const MODEL_ID = { model_id: 'Id of the model, as its registration answered.' };
const ARTIFACT_NAME = {
  entity: "The key's own entity.",
  project: 'Groups artifacts.',
  name: 'Unique in its project.',
};
const ARTIFACT_VERSION = { ...ARTIFACT_NAME, version: '`vN`, or `latest` for the newest one that is there.' };
const EXPORT_ID = { ...MODEL_ID, export_id: 'Id of the export.' };
const ADAPTER_ID = { adapter_id: 'Id of the adapter.' };
const JOB_ID = { job_id: 'Id of the training job.' };

/** Every operation of the API, in the order of its reference. */
export const OPERATIONS: readonly Operation[] = [
  {
    id: 'createChatCompletion',
    method: 'post',
    paths: ['/v1/chat/completions'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Reply to a conversation',
    description:
      'Renders the messages with the chat template of the model and samples replies. With `stream: true` the answer comes as server-sent events, which end with `[DONE]`; a failure after the first byte is one event `{"error": …}`.',
    isIdempotent: true,
    body: ChatCompletionRequestSchema,
    answer: ChatCompletionSchema,
    chunk: ChatCompletionChunkSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, ...SAMPLING],
  },
  {
    id: 'createCompletion',
    method: 'post',
    paths: ['/v1/completions'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Continue a text',
    description:
      'Continues each prompt as it is, without a template. With several prompts the choice i of prompt p has the index p × n + i.',
    isIdempotent: true,
    body: CompletionRequestSchema,
    answer: CompletionSchema,
    chunk: CompletionChunkSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, ...SAMPLING],
  },
  {
    id: 'createMessage',
    method: 'post',
    paths: ['/v1/messages'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Reply to a conversation, in the form of the Anthropic API',
    description:
      'The same as a chat completion in another form: what the form cannot say has the default of a chat. The key may come as `x-api-key`. A field that is not known here, or that asks for what is not done here, is 400 by its name.',
    isIdempotent: true,
    body: MessagesRequestSchema,
    answer: MessageSchema,
    chunk: MessageEventSchema,
    isNamedStream: true,
    streamError: MessagesErrorSchema,
    error: MessagesErrorSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, ...SAMPLING],
  },
  {
    id: 'countMessageTokens',
    method: 'post',
    paths: ['/v1/messages/count_tokens'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'How long the prompt of a message request is',
    description: 'In tokens, as the template of the model renders it. One that is longer than the context is no error.',
    body: CountTokensRequestSchema,
    answer: CountTokensSchema,
    error: MessagesErrorSchema,
    faults: [
      ...KEY,
      ...BODY,
      ...MODEL_NAME,
      ...HOST,
      'request.unsupported',
      'engine.template_failed',
      'engine.context_too_long',
    ],
  },
  {
    id: 'tokenize',
    method: 'post',
    paths: ['/v1/tokenize', '/tokenize'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Text or a conversation as token ids',
    description: 'Give exactly one of `prompt` and `messages`. A result longer than the context is no error.',
    body: TokenizeRequestSchema,
    answer: TokenizeResponseSchema,
    faults: [
      ...KEY,
      ...BODY,
      ...MODEL_NAME,
      ...HOST,
      'request.unsupported',
      'engine.template_failed',
      'context_length_exceeded',
    ],
  },
  {
    id: 'detokenize',
    method: 'post',
    paths: ['/v1/detokenize', '/detokenize'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'Token ids as text',
    description: 'Control tokens give their own text; bytes that are no whole character read as U+FFFD.',
    body: DetokenizeRequestSchema,
    answer: DetokenizeResponseSchema,
    faults: [...KEY, ...BODY, ...MODEL_NAME, ...HOST, 'engine.invalid_request'],
  },
  {
    id: 'listModels',
    method: 'get',
    paths: ['/v1/models'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'What can be sampled from',
    description:
      'The base model, then each trained model of the caller: by its bare name, which is its latest version, and each checkpoint.',
    answer: ModelListSchema,
    faults: KEY,
  },
  {
    id: 'retrieveModel',
    method: 'get',
    paths: ['/v1/models/{model}'],
    scope: 'inference',
    tag: 'Inference',
    summary: 'One model, by any of its names',
    description:
      'Slashes of the name may be sent as they are or encoded. The answer names the version that the name stands for.',
    pathParameters: { model: 'A name as `model` of a chat request takes it.' },
    answer: ModelCardSchema,
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
      'A fresh model is at step 0, the untouched base model or the checkpoint it begins with, and can be sampled from at once.',
    isIdempotent: true,
    body: CreateModelRequestSchema,
    answer: ModelObjectSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.unknown_model', 'request.model_exists'],
  },
  {
    id: 'deleteModel',
    method: 'delete',
    paths: ['/v1/preview/models/{model_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Delete a model with all its checkpoints',
    description: 'Its queued and running jobs end with `training_failed`. The name is free afterwards.',
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
    summary: 'Checkpoints of a model, by step',
    description: 'The newest step is the first item of `limit=1&order=desc`.',
    pathParameters: MODEL_ID,
    query: PageQuerySchema,
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
    description: 'Step numbers are never used again. Deleting what is gone is no error.',
    pathParameters: MODEL_ID,
    isIdempotent: true,
    body: DeleteCheckpointsRequestSchema,
    answer: DeleteCheckpointsResponseSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'logTrajectories',
    method: 'post',
    paths: ['/v1/preview/models/{model_id}/log'],
    scope: 'training',
    tag: 'Training',
    summary: 'Keep trajectories, and their means as metrics',
    description:
      'For the split S the latest checkpoint gets `S/reward`, `S/reward_std_dev`, `S/exception_rate`, `S/<metric>` and `S/group_<metric>`.',
    pathParameters: MODEL_ID,
    isIdempotent: true,
    body: LogTrajectoriesRequestSchema,
    answer: LogTrajectoriesResponseSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'server.unavailable'],
  },
  {
    id: 'createTrainingJob',
    method: 'post',
    paths: ['/v1/preview/training-jobs'],
    scope: 'training',
    tag: 'Training',
    summary: 'Train a model on reward-labelled rollouts',
    description:
      'Checks everything, queues the job and answers at once. Jobs of one model run one after the other; when one ends, the name of the model stands for the new step.',
    isIdempotent: true,
    body: CreateTrainingJobRequestSchema,
    answer: TrainingJobSchema,
    faults: [
      ...KEY,
      ...BODY,
      ...IDEMPOTENCY,
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
      'Reads and checks every line of the data, queues the job and answers at once. The other routes for jobs serve it too. Each assistant turn is trained up to and including its end.',
    isIdempotent: true,
    body: CreateSftTrainingJobRequestSchema,
    answer: TrainingJobSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.conflict', 'trainer.config_invalid'],
  },
  {
    id: 'uploadArtifact',
    method: 'post',
    paths: ['/v1/preview/artifacts/{entity}/{project}/{name}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Upload conversations to train on',
    description:
      'The body is the file itself, at most 512 MB; every line is checked while it comes in. Makes the next version of its name. The same file as in the newest version is that version again.',
    pathParameters: ARTIFACT_NAME,
    isIdempotent: true,
    query: UploadArtifactQuerySchema,
    upload: {
      mediaTypes: JSON_LINES_MEDIA_TYPES,
      description: 'JSON lines in UTF-8, each `{"messages": […], "tools": […]}`, at most 8 MB.',
    },
    answer: ArtifactSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'listArtifacts',
    method: 'get',
    paths: ['/v1/preview/artifacts'],
    scope: 'training',
    tag: 'Training',
    summary: 'Uploaded files, every version of each',
    description: 'In the order of their upload.',
    query: PageQuerySchema,
    answer: ArtifactPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'listArtifactVersions',
    method: 'get',
    paths: ['/v1/preview/artifacts/{entity}/{project}/{name}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Versions of an uploaded file',
    description: 'In the order of their upload; empty when there is none of that name.',
    pathParameters: ARTIFACT_NAME,
    query: PageQuerySchema,
    answer: ArtifactPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'retrieveArtifact',
    method: 'get',
    paths: ['/v1/preview/artifacts/{entity}/{project}/{name}/{version}'],
    scope: 'training',
    tag: 'Training',
    summary: 'One version of an uploaded file',
    description: 'What is known of it, not its lines.',
    pathParameters: ARTIFACT_VERSION,
    answer: ArtifactSchema,
    faults: [...KEY, 'request.not_found'],
  },
  {
    id: 'deleteArtifact',
    method: 'delete',
    paths: ['/v1/preview/artifacts/{entity}/{project}/{name}/{version}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Delete one version of an uploaded file',
    description: 'Jobs that were made from it have their own copy. Its number is never used again.',
    pathParameters: ARTIFACT_VERSION,
    isIdempotent: true,
    answer: DeleteArtifactResponseSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'retrieveTrainingJob',
    method: 'get',
    paths: ['/v1/preview/training-jobs/{job_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'How a training job is',
    description: 'Its state, its complete settings, and what became of each group. The events tell the numbers.',
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
    summary: 'Training jobs of a model, in order of submission',
    description: 'Ended ones included.',
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
    summary: 'End a training job now',
    description:
      'The job ends with `training_failed`, whose message says that it was cancelled; the model stays at its last step. Cancelling a cancelled job changes nothing.',
    pathParameters: JOB_ID,
    isIdempotent: true,
    answer: TrainingJobSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.job_ended'],
  },
  {
    id: 'pauseTrainingJob',
    method: 'post',
    paths: ['/v1/preview/training-jobs/{job_id}/pause'],
    scope: 'training',
    tag: 'Training',
    summary: 'Hold a training job',
    description:
      'A running job stops at once and keeps its finished gradient steps; later jobs of its model wait, those of other models do not. Pausing a paused job changes nothing.',
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
    summary: 'Let a paused training job go on',
    description: 'It goes on after its last finished gradient step. Resuming a job that is not paused changes nothing.',
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
    summary: 'Events of a training job, oldest first',
    description:
      'Poll with `after` until `training_ended` or `training_failed`, one of which always comes. `order` has no effect here.',
    pathParameters: JOB_ID,
    query: PageQuerySchema,
    answer: TrainingEventPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'createExport',
    method: 'post',
    paths: ['/v1/preview/models/{model_id}/exports'],
    scope: 'training',
    tag: 'Training',
    summary: 'Export a checkpoint in a public format',
    description:
      'Queues the export and answers at once. It ends with a comparison: the exported files are run, and their log-probabilities held against those of the trainer.',
    pathParameters: MODEL_ID,
    isIdempotent: true,
    body: CreateExportRequestSchema,
    answer: ExportSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.conflict', 'request.too_many'],
  },
  {
    id: 'listExports',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/exports'],
    scope: 'training',
    tag: 'Training',
    summary: 'Exports of a model',
    description: 'In order of creation.',
    pathParameters: MODEL_ID,
    query: PageQuerySchema,
    answer: ExportPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'retrieveExport',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/exports/{export_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'How an export is, its files and their parity',
    description: 'Poll until `succeeded` or `failed`.',
    pathParameters: EXPORT_ID,
    answer: ExportSchema,
    faults: [...KEY, 'request.not_found'],
  },
  {
    id: 'downloadExportFile',
    method: 'get',
    paths: ['/v1/preview/models/{model_id}/exports/{export_id}/files/{name}'],
    scope: 'training',
    tag: 'Training',
    summary: 'A file of an export',
    description: 'The bytes, with `Content-Length` and the sha256 as `ETag`.',
    pathParameters: { ...EXPORT_ID, name: 'Name of the file, as the export lists it.' },
    answer: { mediaType: 'application/octet-stream' },
    faults: [...KEY, 'request.not_found', 'store.blob_missing'],
  },
  {
    id: 'deleteExport',
    method: 'delete',
    paths: ['/v1/preview/models/{model_id}/exports/{export_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Delete an export with its files',
    description: 'One that is running is stopped.',
    pathParameters: EXPORT_ID,
    isIdempotent: true,
    answer: DeletedSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'createAdapter',
    method: 'post',
    paths: ['/v1/preview/adapters'],
    scope: 'training',
    tag: 'Training',
    summary: 'Begin to import an adapter of PEFT',
    description:
      'Then send its two files, and commit it. An upload that is not committed within a day may be removed; a few may be open at a time.',
    isIdempotent: true,
    body: CreateAdapterRequestSchema,
    answer: AdapterSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.unknown_model', 'request.too_many'],
  },
  {
    id: 'listAdapters',
    method: 'get',
    paths: ['/v1/preview/adapters'],
    scope: 'training',
    tag: 'Training',
    summary: 'Imported adapters',
    description: 'In order of creation, unfinished uploads included.',
    query: PageQuerySchema,
    answer: AdapterPageSchema,
    faults: [...KEY, ...LIST],
  },
  {
    id: 'retrieveAdapter',
    method: 'get',
    paths: ['/v1/preview/adapters/{adapter_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'One imported adapter',
    description: 'Its shape and digest are known once it is committed.',
    pathParameters: ADAPTER_ID,
    answer: AdapterSchema,
    faults: [...KEY, 'request.not_found'],
  },
  {
    id: 'uploadAdapterFile',
    method: 'put',
    paths: ['/v1/preview/adapters/{adapter_id}/files/{name}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Send a file of an adapter',
    description: 'The bytes as they are, such as `curl -T FILE URL` sends them. Sending it again replaces it.',
    pathParameters: {
      ...ADAPTER_ID,
      name: `One of ${Object.entries(ADAPTER_FILES)
        .map(([name, maxBytes]) => `\`${name}\` (at most ${maxBytes} bytes)`)
        .join(' and ')}.`,
    },
    isIdempotent: true,
    upload: { mediaTypes: ['application/octet-stream'], description: 'The file.' },
    answer: AdapterFileSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found', 'request.conflict'],
  },
  {
    id: 'commitAdapter',
    method: 'post',
    paths: ['/v1/preview/adapters/{adapter_id}/commit'],
    scope: 'training',
    tag: 'Training',
    summary: 'Check an uploaded adapter and make it usable',
    description:
      'Options, tensors, shapes and values are checked against the base model; what is wrong is named, and the upload stays open. Committing what is committed answers the same.',
    pathParameters: ADAPTER_ID,
    isIdempotent: true,
    answer: AdapterSchema,
    faults: [
      ...KEY,
      ...BODY,
      ...IDEMPOTENCY,
      'request.not_found',
      'request.conflict',
      'trainer.adapter_invalid',
      'trainer.architecture_unsupported',
      'trainer.disk_full',
      'trainer.host_lost',
    ],
  },
  {
    id: 'deleteAdapter',
    method: 'delete',
    paths: ['/v1/preview/adapters/{adapter_id}'],
    scope: 'training',
    tag: 'Training',
    summary: 'Delete an imported adapter',
    description: 'Models that began with it keep their weights.',
    pathParameters: ADAPTER_ID,
    isIdempotent: true,
    answer: DeletedSchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'createKey',
    method: 'post',
    paths: ['/v1/keys'],
    scope: 'admin',
    tag: 'Service',
    summary: 'Make a key',
    description:
      "The secret is in this answer and nowhere else. A key of the service's own entity may make keys for other entities, which have models and jobs of their own.",
    isIdempotent: true,
    body: CreateKeyRequestSchema,
    answer: CreatedKeySchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'listKeys',
    method: 'get',
    paths: ['/v1/keys'],
    scope: 'admin',
    tag: 'Service',
    summary: 'Keys, without their secrets',
    description: "Those of the caller's entity; a key of the service's own entity sees all.",
    answer: ApiKeyListSchema,
    faults: KEY,
  },
  {
    id: 'revokeKey',
    method: 'delete',
    paths: ['/v1/keys/{key_id}'],
    scope: 'admin',
    tag: 'Service',
    summary: 'Revoke a key',
    description:
      'It is refused at once, and answers that it is being sent end within a second. Revoking a revoked key changes nothing.',
    pathParameters: { key_id: 'Id of the key.' },
    isIdempotent: true,
    answer: ApiKeySchema,
    faults: [...KEY, ...BODY, ...IDEMPOTENCY, 'request.not_found'],
  },
  {
    id: 'health',
    method: 'get',
    paths: ['/v1/health', '/health', '/ping'],
    scope: 'public',
    tag: 'Service',
    summary: 'Whether the service can work',
    description:
      '200 while the service samples, also when training or the store are in trouble; then `status` is `degraded`, with the reasons.',
    answer: HealthSchema,
    otherAnswers: { 503: { description: 'It does not sample; the body says why.', schema: HealthSchema } },
    faults: EVERY_ROUTE,
  },
  {
    id: 'systemCheck',
    method: 'get',
    paths: ['/v1/system-check'],
    scope: 'public',
    tag: 'Service',
    summary: 'How each part of the service is',
    description: 'The names of the parts are those that training clients know.',
    answer: SystemCheckSchema,
    otherAnswers: { 503: { description: 'A part is down; the body says which.', schema: SystemCheckSchema } },
    faults: EVERY_ROUTE,
  },
  {
    id: 'version',
    method: 'get',
    paths: ['/v1/version', '/version'],
    scope: 'public',
    tag: 'Service',
    summary: 'Which version runs',
    description: 'The version of the service, not of a model.',
    answer: VersionSchema,
    faults: EVERY_ROUTE,
  },
  {
    id: 'home',
    method: 'get',
    paths: ['/'],
    scope: 'public',
    tag: 'Service',
    summary: 'What this service is, how it is, and how to go on',
    description: 'A page for browsers, plain text for clients that do not ask for `text/html`.',
    answer: { mediaType: 'text/html' },
    faults: EVERY_ROUTE,
  },
  {
    id: 'openApi',
    method: 'get',
    paths: ['/openapi.json'],
    scope: 'public',
    tag: 'Service',
    summary: 'This description of the API, for tools',
    description: 'OpenAPI 3.1, made from the schemas that requests are checked with.',
    answer: Type.Object({ openapi: Type.Literal('3.1.0') }, { description: 'An OpenAPI document.' }),
    faults: EVERY_ROUTE,
  },
  {
    id: 'reference',
    method: 'get',
    paths: ['/docs'],
    scope: 'public',
    tag: 'Service',
    summary: 'This description of the API, for people',
    description: 'One page that needs nothing from elsewhere.',
    answer: { mediaType: 'text/html' },
    faults: EVERY_ROUTE,
  },
];

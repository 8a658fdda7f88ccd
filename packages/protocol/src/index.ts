export {
  type ListPage,
  type PageQuery,
  PageQuerySchema,
  type EventPageQuery,
  EventPageQuerySchema,
} from './shape/schema.ts';
export {
  type ErrorBody,
  ErrorBodySchema,
  type ErrorObject,
  type ErrorType,
  faultStatus,
  type HttpFault,
  REQUEST_FAULTS,
  type RequestErrorCode,
  type ValidationItem,
} from './shape/errors.ts';
export {
  type ChatMessage,
  ChatMessageSchema,
  ContentPartSchema,
  messageFaults,
  TEXT_PART_TYPES,
  type ToolCall,
  ToolCallSchema,
} from './inference/chat-message.ts';
export {
  type ChatCompletionField,
  type ChatCompletionRequest,
  ChatCompletionRequestSchema,
  MAX_TOP_LOGPROBS,
  type Tool,
  ToolSchema,
} from './inference/chat-completion.ts';
export { didYouMean } from './fields/did-you-mean.ts';
export { NAME_PATTERN } from './fields/name-pattern.ts';
export { REQUEST_LIMITS } from './fields/request-limits.ts';
export { SAMPLING_FIELDS, type SamplingField, type SamplingFields } from './fields/sampling-fields.ts';
export { fieldOfParam, readParams } from './fields/sampling-params.ts';
export {
  briefly,
  type FieldNames,
  type FieldText,
  type NamedField,
  namesFrom,
  quoting,
  renameFields,
  renderFieldText,
} from './fields/field-text.ts';
export { findForeignToken } from './fields/token-ids.ts';
export { type JobFieldRow, type JobFieldTable, toJobInput } from './fields/job-field.ts';
export { SFT_EXPERIMENTAL_FIELDS, SFT_FIELDS } from './fields/sft-fields.ts';
export { TRAINING_FIELDS } from './fields/training-fields.ts';
export { FIELDS_WITHOUT_EFFECT } from './inference/fields-without-effect.ts';
export { asksForNothing, refusedField } from './inference/refused-fields.ts';
export {
  normalizeChatCompletionRequest,
  normalizeCompletionRequest,
  normalizeGenerateTokensRequest,
  normalizeMessagesRequest,
  normalizeResponsesRequest,
  normalizeTokenizeRequest,
  parseSeed,
} from './inference/lax.ts';
export {
  type Completion,
  type CompletionChoice,
  type CompletionChunk,
  type CompletionChunkChoice,
  type CompletionField,
  type CompletionLogprobs,
  type CompletionRequest,
  CompletionRequestSchema,
  MAX_PROMPTS,
} from './inference/completion.ts';
export {
  type DetokenizeRequest,
  DetokenizeRequestSchema,
  type DetokenizeResponse,
  MAX_DETOKENIZE_TOKENS,
  type TokenizeRequest,
  type TokenizerInfo,
  type TokenizerInfoQuery,
  TokenizerInfoQuerySchema,
  TokenizeRequestSchema,
  type TokenizeResponse,
} from './inference/tokenize.ts';
export type { ModelCard, ModelList, ModelPermission } from './service/models.ts';
export type { Health, Liveness, PartCheck, Readiness, SystemCheck, Version } from './service/service-status.ts';
export { OPERATIONS } from './document/operations/index.ts';
export { type Operation, type OperationScope, refusesOtherQueries } from './document/operations/operation-parts.ts';
export { OPERATION_EXAMPLES, type OperationExample } from './document/operation-examples.ts';
export {
  type JsonSchema,
  openApiDocument,
  type OpenApiDocument,
  type OpenApiOperation,
  type OpenApiParameter,
  type OpenApiResponse,
} from './document/openapi.ts';
export type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChoice,
  ChatCompletionChunk,
  ChunkChoice,
  ChunkDelta,
  ChunkUsage,
  CompletionUsage,
  PolicyTokenSpan,
  StreamError,
  ToolCallDeltaEntry,
  WireFinishReason,
} from './inference/chat-response.ts';
export type { ChoiceLogprobs, PromptLogprobEntry, TokenLogprobEntry, TopLogprobEntry } from './inference/logprobs.ts';
export {
  ExchangesSchema,
  HistorySchema,
  type SentTrajectory,
  type SentTrajectoryGroup,
  TrajectoryGroupSchema,
  TrajectoryItemSchema,
  TrajectorySchema,
  type WireChoice,
  type WireExchange,
  type WireExchanges,
  type WireHistory,
  type WireLogprobEntry,
  type WireOtherExchange,
  type WireTrajectory,
  type WireTrajectoryGroup,
} from './training/trajectory.ts';
export {
  ignoredConfigKeys,
  INERT_CONFIG_FIELDS,
  type TrainingConfigField,
  TrainingConfigSchema,
  type WireTrainingConfig,
} from './training/training-config.ts';
export {
  type CountTokens,
  type CountTokensRequest,
  CountTokensRequestSchema,
  type Message,
  type MessageBlockParam,
  type MessageEvent,
  type MessageParam,
  type MessageReplyBlock,
  type MessagesError,
  type MessagesErrorType,
  type MessagesRequest,
  MessagesRequestSchema,
  type MessageStopReason,
  type MessageTool,
  type MessageUsage,
} from './inference/messages.ts';
export {
  type DeletedResponse,
  DeletedResponseSchema,
  type InputItemPage,
  InputItemPageSchema,
  type InputItemQuery,
  InputItemQuerySchema,
  type ResponseQuery,
  ResponseQuerySchema,
} from './inference/kept-responses.ts';
export {
  type ConversationItemList,
  ConversationItemListSchema,
  type ConversationItemObject,
  type ConversationItemQuery,
  ConversationItemQuerySchema,
  type ConversationObject,
  type CreateConversationRequest,
  CreateConversationRequestSchema,
  type CreateItemsRequest,
  CreateItemsRequestSchema,
  type DeletedConversation,
  type ItemQuery,
  ItemQuerySchema,
  type UpdateConversationRequest,
  UpdateConversationRequestSchema,
} from './inference/conversations.ts';
export {
  type CountInputTokensRequest,
  CountInputTokensRequestSchema,
  type InputTokens,
  type OutputText,
  type Response,
  type ResponseEvent,
  type ResponseInputItem,
  type ResponseOutputItem,
  type ResponsesRequest,
  RESPONSES_CHAT_FIELDS,
  ResponsesRequestSchema,
  type ResponseStatus,
  type ResponseStreamError,
  type ResponseTool,
  ResponseToolSchema,
  type ResponseUsage,
} from './inference/responses.ts';
export {
  type GenerateTokensAnswer,
  type GenerateTokensChunk,
  type GenerateTokensRequest,
  GenerateTokensRequestSchema,
} from './inference/token-generation.ts';
export {
  LORA_ADAPTERS_PROJECT,
  type LoadLoraAdapterRequest,
  LoadLoraAdapterRequestSchema,
  type UnloadLoraAdapterRequest,
  UnloadLoraAdapterRequestSchema,
} from './service/lora-adapter.ts';
export { ALL_LINEAR, type LoraObject, type LoraRequest } from './training/lora.ts';
export {
  type CheckpointObject,
  MAX_TAGS,
  type UpdateModelRequest,
  UpdateModelRequestSchema,
  type CreateModelRequest,
  CreateModelRequestSchema,
  type CreateTrainingJobRequest,
  CreateTrainingJobRequestSchema,
  type CheckpointPageQuery,
  CheckpointPageQuerySchema,
  KEEP_REASONS,
  type KeepCheckpointsRequest,
  KeepCheckpointsRequestSchema,
  type KeepCheckpointsResponse,
  KeepCheckpointsResponseSchema,
  type KeepReason,
  type DeleteCheckpointsRequest,
  DeleteCheckpointsRequestSchema,
  type DeleteCheckpointsResponse,
  type DeleteModelResponse,
  type JobStatus,
  type LogTrajectoriesRequest,
  LogTrajectoriesRequestSchema,
  type LogTrajectoriesResponse,
  type ModelObject,
  type TrainingEventObject,
  type TrainingEventType,
  type TrainingExampleList,
  type TrainingExamplesQuery,
  TrainingExamplesQuerySchema,
  type JobWarningObject,
  type WaitingForObject,
  type TrainingJobObject,
} from './training/preview.ts';
export {
  type ArtifactObject,
  type DeleteArtifactResponse,
  JSON_LINES_MEDIA_TYPES,
  type UploadArtifactQuery,
  UploadArtifactQuerySchema,
} from './training/artifact.ts';
export {
  type BaseModelList,
  BaseModelListSchema,
  type BaseModelObject,
  BaseModelObjectSchema,
  type FetchBaseModelRequest,
  FetchBaseModelRequestSchema,
} from './training/base-models.ts';
export {
  type CreateSftTrainingJobRequest,
  CreateSftTrainingJobRequestSchema,
  ignoredSftConfigKeys,
  SftLineSchema,
  type WireSftConfig,
  type WireSftExperimentalConfig,
  type WireSftLine,
} from './training/sft.ts';
export {
  type ApiKeyList,
  type ApiKeyObject,
  type CreatedKeyObject,
  type CreateKeyRequest,
  CreateKeyRequestSchema,
  type KeyLimitsObject,
  type KeyLimitsRequest,
  type UpdateKeyRequest,
  UpdateKeyRequestSchema,
} from './service/keys.ts';
export {
  type CreateSessionRequest,
  CreateSessionRequestSchema,
  type SessionLinkObject,
  type SessionObject,
} from './service/session.ts';
export {
  ADAPTER_FILES,
  type AdapterFileName,
  type AdapterFileObject,
  type AdapterObject,
  type CreateAdapterRequest,
  CreateAdapterRequestSchema,
  type CreateExportRequest,
  CreateExportRequestSchema,
  type DeletedObject,
  type ExportDtype,
  type ExportFormat,
  type ExportObject,
  type ParityReportObject,
} from './training/transfer.ts';
export { type ModelDetailsObject, type ModelPageQuery, ModelPageQuerySchema } from './reading/models.ts';
export {
  type QueuedJobObject,
  type TrainingJobPageQuery,
  TrainingJobPageQuerySchema,
  type TrainingQueueObject,
} from './reading/jobs.ts';
export {
  type MetricListObject,
  type SeriesListObject,
  type SeriesObject,
  type SeriesQueryObject,
  SeriesQuerySchema,
} from './reading/series.ts';
export {
  type ServiceEventObject,
  type ServiceEventQuery,
  ServiceEventQuerySchema,
  type ServiceEventType,
} from './reading/events.ts';
export { type UsageGroupObject, type UsageListObject, type UsageQuery, UsageQuerySchema } from './reading/usage.ts';
export type { HostsObject } from './reading/hosts.ts';
export {
  type TokenSequenceObject,
  type TrajectoryContent,
  type TrajectoryObject,
  type TrajectoryPageQuery,
  TrajectoryPageQuerySchema,
  type SampledChoiceObject,
  type TrajectoryTokens,
} from './reading/trajectories.ts';
export {
  isRolloutMetric,
  OWN_ROLLOUT_METRICS,
  ROLLOUT_METRICS,
  type RolloutMetric,
} from './training/rollout-metrics.ts';

export {
  type ListPage,
  NAME_PATTERN,
  type PageQuery,
  PageQuerySchema,
  type EventPageQuery,
  EventPageQuerySchema,
} from './schema.ts';
export {
  type ErrorBody,
  type ErrorObject,
  type ErrorType,
  type HttpFault,
  REQUEST_FAULTS,
  type RequestErrorCode,
  type ValidationItem,
} from './errors.ts';
export {
  type ChatMessage,
  ChatMessageSchema,
  ContentPartSchema,
  messageFaults,
  TEXT_PART_TYPES,
  type ToolCall,
  ToolCallSchema,
} from './chat-message.ts';
export {
  type ChatCompletionField,
  type ChatCompletionRequest,
  ChatCompletionRequestSchema,
  MAX_CHOICES,
  MAX_STOP_STRINGS,
  MAX_TOP_LOGPROBS,
  type Tool,
  ToolSchema,
} from './chat-completion.ts';
export {
  REMOVED_FIELD_PREFIX,
  UNIMPLEMENTED_FIELDS,
  type UnimplementedField,
  unsupportedField,
} from './unimplemented-fields.ts';
export { normalizeChatCompletionRequest, parseSeed } from './lax.ts';
export type {
  AssistantMessage,
  ChatCompletion,
  ChatCompletionChoice,
  ChatCompletionChunk,
  ChoiceLogprobs,
  ChunkChoice,
  ChunkUsage,
  CompletionUsage,
  ModelCard,
  ModelList,
  ModelPermission,
  StreamError,
  TokenLogprobEntry,
  TopLogprobEntry,
  WireFinishReason,
} from './chat-response.ts';
export {
  HistorySchema,
  TrajectoryGroupSchema,
  TrajectoryItemSchema,
  TrajectorySchema,
  type WireChoice,
  type WireHistory,
  type WireLogprobEntry,
  type WireTrajectory,
  type WireTrajectoryGroup,
} from './trajectory.ts';
export {
  ignoredConfigKeys,
  IMPLEMENTED_CONFIG_FIELDS,
  type TrainingConfigField,
  TrainingConfigSchema,
  UNIMPLEMENTED_CONFIG_FIELDS,
  unsupportedConfigField,
  type WireTrainingConfig,
} from './training-config.ts';
export {
  type CheckpointObject,
  type CreateModelRequest,
  CreateModelRequestSchema,
  type CreateTrainingJobRequest,
  CreateTrainingJobRequestSchema,
  type DeleteCheckpointsRequest,
  DeleteCheckpointsRequestSchema,
  type DeleteCheckpointsResponse,
  type DeleteModelResponse,
  type JobStatus,
  type LogTrajectoriesRequest,
  LogTrajectoriesRequestSchema,
  type ModelObject,
  type TrainingEventObject,
  type TrainingEventType,
  type TrainingJobObject,
} from './preview.ts';

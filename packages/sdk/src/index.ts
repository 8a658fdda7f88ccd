export type { Adapters } from './adapters.ts';
export { Trainyard, type ArtifactPath, type ChatBody } from './client.ts';
export type { CallOptions, PageOptions, TrainyardOptions } from './connection.ts';
export { ExportFailedError, TrainingFailedError, TrainyardApiError, TrainyardConnectionError } from './errors.ts';
export type { Exports } from './exports.ts';
export type { Keys } from './keys.ts';
export { gatherGroup, type GatheredGroup, type RewardFunction } from './rollout.ts';
/** Arguments and results of the calls, as they cross the wire. */
export type {
  AdapterObject,
  ApiKeyObject,
  ArtifactObject,
  ChatCompletion,
  ChatCompletionChoice,
  ChatCompletionChunk,
  CheckpointObject,
  CreatedKeyObject,
  CompletionUsage,
  ExportObject,
  ListPage,
  LoraRequest,
  ModelCard,
  ModelList,
  ModelObject,
  TrainingEventObject,
  TrainingJobObject,
  WireSftConfig,
  WireSftLine,
  WireTrainingConfig,
  WireTrajectory,
  WireTrajectoryGroup,
} from '@trainyard/protocol';
/** Answers of the routes that only tell, and of those that sign a browser in. */
export type {
  ErrorBody,
  HostsObject,
  MetricListObject,
  ModelDetailsObject,
  QueuedJobObject,
  SeriesListObject,
  SeriesObject,
  ServiceEventObject,
  SessionLinkObject,
  SessionObject,
  TokenSequenceObject,
  TrainingQueueObject,
  TrajectoryContent,
  TrajectoryObject,
  TrajectoryTokens,
  UsageGroupObject,
  UsageListObject,
} from '@trainyard/protocol';

export type { Adapters } from './adapters.ts';
export { Trainyard, type ArtifactPath, type ChatBody } from './client.ts';
export type { CallOptions, PageOptions, TrainyardOptions } from './connection.ts';
export { ExportFailedError, TrainingFailedError, TrainyardApiError, TrainyardConnectionError } from './errors.ts';
export type { Exports } from './exports.ts';
export { gatherGroup, type GatheredGroup, type RewardFunction } from './rollout.ts';

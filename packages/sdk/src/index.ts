export {
  Trainyard,
  type ArtifactPath,
  type CallOptions,
  type ChatBody,
  type PageOptions,
  type TrainyardOptions,
} from './client.ts';
export { TrainingFailedError, TrainyardApiError } from './errors.ts';
export { gatherGroup, type GatheredGroup, type RewardFunction } from './rollout.ts';

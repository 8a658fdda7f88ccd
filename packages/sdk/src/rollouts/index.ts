export { bestCheckpoint, type Best, EarlyStop } from './early-stop.ts';
export { gather, type GatherOptions, type GatherProgress, group, type GroupPlan, meanReward } from './gather.ts';
export { gatherGroup, type GatheredGroup, type RewardFunction } from './gather-group.ts';
export { type PlayRollout, PolicyModel, type Rollout } from './policy-model.ts';
export { evaluate, type Evaluation, train, type Trained } from './train.ts';

export { TrainerError, type TrainerErrorCode } from './errors.ts';
export {
  resolveTrainingConfig,
  type ImportanceSamplingLevel,
  type KlPenaltySource,
  type LossFunction,
  type TrainingConfig,
  type TrainingConfigInput,
} from './config.ts';
export type { History, Trajectory, TrajectoryGroup } from './trajectory.ts';
export type {
  TrainablePolicy,
  TrainerEvent,
  TrainingJob,
  TrainingParts,
  TrainingResult,
  TrainingStartedData,
} from './training-job.ts';
export { openTrainer, type Trainer } from './open-trainer.ts';
export { runTrainingJob } from './train.ts';

export { groupAdvantages, normalizeCredit, type Credit, type CreditInput } from './advantage.ts';
export { policyLoss, type LossConfig, type LossInput, type LossResult } from './loss.ts';
export type { LossMetrics } from './loss-metrics.ts';
export { packRows, rowLength, type CreditedSequence, type TrainingRow } from './pack.ts';
export {
  adamWStep,
  freshOptimizerState,
  gradientNorm,
  type OptimizerConfig,
  type OptimizerState,
} from './optimizer.ts';
export { checkpointDigest, readCheckpoint, writeCheckpoint } from './checkpoint.ts';
export { readSafetensors, writeSafetensors, type NamedTensor, type SafetensorsFile } from './safetensors.ts';

export type { Architecture } from './model/architecture.ts';
export { measureProductRate } from './graph/product-rate.ts';
export type { GraphTiming } from './model/lane-compute.ts';
export { OrtPolicyModel, type OrtPolicyModelOptions } from './model/ort-policy-model.ts';
export {
  DEFAULT_LORA_CONFIG,
  LINEAR_NAMES,
  type ComputeGate,
  type ComputeOptions,
  type ForwardOptions,
  type ForwardResult,
  type LinearName,
  type LoraConfig,
  type LoraHalf,
  type LoraParameters,
  type LoraTensor,
  type PackedRow,
  type PolicyModel,
} from './model/policy-model.ts';

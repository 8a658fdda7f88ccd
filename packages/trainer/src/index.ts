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
export type { TrainerEvent, TrainingJob, TrainingParts, TrainingResult, TrainingStartedData } from './training-job.ts';
export {
  DEFAULT_LORA_CONFIG,
  LINEAR_NAMES,
  type ComputeGate,
  type LinearName,
  type LoraConfig,
  type LoraParameters,
  type LoraTensor,
  type PackedRow,
  type PolicyModel,
} from './model/policy-model.ts';

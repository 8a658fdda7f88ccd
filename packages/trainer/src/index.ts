export { TrainerError, type Retry, type TrainerErrorCode } from './contract/errors.ts';
export {
  resolveTrainingConfig,
  scheduleOf,
  type TrainingConfig,
  type TrainingConfigInput,
} from './config/training-config.ts';
export type { History, Trajectory, TrajectoryGroup } from './rollouts/trajectory.ts';
export type {
  RolloutsBeginning,
  JobBase,
  TakenStep,
  TrainerEvent,
  TrainingJob,
  TrainingParts,
  TrainingResult,
  TrainingStartedData,
} from './job/training-job.ts';
export { ProgressFiles, type ProgressRecords } from './job/progress-records.ts';
export { linkSnapshot, placeSnapshot } from './job/snapshot-folder.ts';
export { decodeTokenTrace, encodeTokenTrace, type ReadSequence, type TracedSequence } from './job/token-trace.ts';
export { type EncodedTrace, TraceFiles, type TraceRecords } from './job/trace-records.ts';
export { openTemplate, type OpenedTemplate } from './learner/open-template.ts';
export { Bf16BlockMatrices } from './lanes/bf16-matrices.ts';
export { predictTraining, type TrainingPrediction } from './learner/predict-training.ts';
export { openTrainer, requireBf16, type Trainer, type TrainerOptions } from './learner/open-trainer.ts';
export { EmbeddedLearner, type EmbeddedLearnerOptions } from './learner/embedded-learner.ts';
export { LocalVersions, type VersionFolders } from './learner/version-folders.ts';
export type {
  AdapterVersion,
  CallOptions,
  LearnerCapabilities,
  LearnerForwardOptions,
  LearnerModel,
  LearnerSession,
  LoadOptions,
  RowBackward,
  RowForward,
  StepReport,
} from './learner/learner-session.ts';
export { isTargetSet, otherShapes } from './learner/require-capabilities.ts';
export { runTrainingJob } from './job/run-training-job.ts';
export { runSftJob, type SftJob } from './sft/run-sft-job.ts';
export { heldOutLines, type HeldOutSource } from './sft/held-out.ts';
export type { SftExample } from './sft/sft-example.ts';
export {
  learningRates,
  numSftSteps,
  resolveSftConfig,
  storedSftConfig,
  type AssistantTurns,
  type SftConfig,
  type SftConfigInput,
} from './sft/sft-config.ts';
export { ignoredSettingsWarning } from './job/ignored-settings.ts';
export { WARNING_CODES, type JobWarning, type WarningCode } from './job/job-warning.ts';
export { referenceStep } from './job/reference-policy.ts';
export type { DropCounts, DropReason, TrajectoryOutcome } from './rollouts/sequence-report.ts';

export { groupAdvantages, normalizeCredit, type Credit, type CreditInput } from './rollouts/advantage.ts';
export { learningRateAt, type LearningRateSchedule, type ScheduleShape } from './optimizer/learning-rate.ts';
export type { ImportanceSamplingLevel, KlPenaltySource, LossConfig } from './objectives/loss-config.ts';
export type { LossInput } from './objectives/loss-input.ts';
export { LOSS_FUNCTIONS, type LossFunction } from './objectives/policy-objectives.ts';
export { policyLoss, type LossResult } from './objectives/policy-loss.ts';
export type { PolicyMetrics } from './objectives/policy-metrics.ts';
export { packRows, rowLength, type CreditedSequence, type TrainingRow } from './packing/pack.ts';
export {
  adamWStep,
  freshOptimizerState,
  gradientNorm,
  type OptimizerConfig,
  type OptimizerState,
} from './optimizer/adamw.ts';
export {
  exportCheckpoint,
  type ExportedFile,
  type ExportFormat,
  type ExportOptions,
  type ExportRequest,
  type ExportResult,
} from './export/export-checkpoint.ts';
export { llamaScores } from './export/llama-scores.ts';
export { writeTokenizerFiles } from './export/tokenizer-files.ts';
export type { MergedType } from './export/merged-weights.ts';
export type { ParityReport } from './export/parity.ts';
export { makeFolders, replaceFile, syncDirectory, writeDurableText } from './checkpoint/durable-directory.ts';
export { copySource } from './model-folder/copy-source.ts';
export { copyPath, modelCopy, readCopySource, type CopySource } from './model-folder/model-copy.ts';
export {
  checkFolderTexts,
  FOLDER_TEXT_FILES,
  folderLabel,
  ModelFolder,
  weightFiles,
} from './model-folder/model-folder.ts';
export { INDEX_FILE, SINGLE_FILE } from './model-folder/shards.ts';
export { ModelFolderError } from './model-folder/model-folder-error.ts';
export { importAdapter, type ImportedAdapter, type ImportRequest } from './import/import-adapter.ts';
export { loraOfCheckpoint } from './checkpoint/adapter-config.ts';
export { checkpointDigest, OPTIMIZER_FILE, readCheckpoint, writeCheckpoint } from './checkpoint/checkpoint.ts';
export { readSafetensors, writeSafetensors, type NamedTensor, type SafetensorsFile } from './checkpoint/safetensors.ts';

export {
  ALL_LINEAR_NAMES,
  copyPaths,
  DamagedFileError,
  DEFAULT_LORA_CONFIG,
  formatFileSums,
  isUniform,
  largestRank,
  CONVOLUTION_LINEAR_NAMES,
  DELTA_LINEAR_NAMES,
  FUSED_LINEAR_NAMES,
  LINEAR_NAMES,
  machineMemory,
  modulePattern,
  parseFileSums,
  requireDigest,
  requireSum,
  parentModule,
  stampFileOf,
  SUMS_FILE,
  targetModule,
  targetModules,
  type Architecture,
  type LinearName,
  type LoraConfig,
  type LoraHalf,
  type ModulePattern,
  type PatternEntry,
} from '@trainyard/transformer';
export type { GraphTiming } from './lanes/lane-compute.ts';
export { memoryBudget, totalTrainingBytes, trainingMemory, type TrainingMemory } from './lanes/training-memory.ts';
export { OrtPolicyModel, type OrtPolicyModelOptions } from './lanes/ort-policy-model.ts';
export type {
  ComputeGate,
  ComputeOptions,
  BackwardOptions,
  ForwardOptions,
  ForwardResult,
  LoraParameters,
  LoraTensor,
  PackedRow,
  PolicyModel,
  TrainablePolicy,
} from './model/policy-model.ts';
export { TRAINABLE_ARCHITECTURES } from './model/trainable-architecture.ts';

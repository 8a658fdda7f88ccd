import type { ChatTemplate } from '@trainyard/tokenizer';
import type { LoraConfig } from '@trainyard/transformer';
import type { TrainingConfig } from '../config/training-config.ts';
import type { LearnerSession } from '../learner/learner-session.ts';
import type { JobWarning } from './job-warning.ts';
import type { ProgressRecords } from './progress-records.ts';
import type { EncodedTrace, TraceRecords } from './trace-records.ts';
import type { TrajectoryOutcome } from '../rollouts/sequence-report.ts';
import type { TrajectoryGroup } from '../rollouts/trajectory.ts';

/** Fields of every kind of job. Adapter versions have the learner's names: keys, paths, addresses. */
export interface JobBase {
  readonly jobId: string;
  readonly lora: LoraConfig;
  /** Initial version, weights and optimizer; null: a fresh adapter. */
  readonly startFrom: string | null;
  /**
   * True to start with a fresh optimizer even if `startFrom` has one, because its momentum belongs to another
   * model. Default false.
   */
  readonly withFreshOptimizer?: boolean;
  /**
   * Name prefix of snapshots: one is kept after each gradient step except the last, so that an interrupted job can
   * resume.
   */
  readonly snapshots: string;
  /** Version that the job produces; appears complete or not at all. */
  readonly output: string;
}

/** Weights that training on rollouts started with; `gone`: they were deleted. */
export type RolloutsBeginning = 'base' | 'gone' | { readonly version: string };

/** A self-contained reinforcement-learning job: the same job and weights give the same checkpoint. */
export interface TrainingJob extends JobBase {
  readonly groups: readonly TrajectoryGroup[];
  readonly config: TrainingConfig;
  /** Version of the KL reference; absent or null: the base model. Read only if the settings need it. */
  readonly referenceFrom?: string | null;
  /** Versions that may have drawn choices, by digest. Default: only the base model. */
  readonly policyVersions?: ReadonlyMap<string, string>;
  /** Weights that the model's training on rollouts started with. Default: the base model. */
  readonly beganFrom?: RolloutsBeginning;
  /** Seed of the shuffles. */
  readonly seed: number;
}

/** Dependencies of a job. */
export interface TrainingParts {
  /** Its adapter is overwritten with the job's; its `lora` must be the job's. */
  readonly learner: LearnerSession;
  /** Template of the trained model, as used for sampling. */
  readonly template: ChatTemplate;
  /** Store of the jobs' progress. */
  readonly progress: ProgressRecords;
  /**
   * Store for the tokens of each gradient step on rollouts, with log-probabilities of sampler and trainer.
   * Default: none.
   */
  readonly traces?: TraceRecords;
  readonly signal: AbortSignal;
  readonly emit: (event: TrainerEvent) => void;
}

/**
 * Events of a job: `training_started` once, then one `gradient_step` per step (batch), in order, with warnings
 * anywhere after the start. The caller writes the terminal event.
 */
export type TrainerEvent =
  | {
      readonly kind: 'training_started';
      readonly numGradientSteps: number;
      readonly data: TrainingStartedData;
      /** Outcome of each submitted trajectory, by group; only for jobs on rollouts. */
      readonly outcomes?: readonly (readonly TrajectoryOutcome[])[];
    }
  | {
      readonly kind: 'gradient_step';
      readonly index: number;
      readonly metrics: Readonly<Record<string, number>>;
      /** Tokens of its trajectories, if kept. */
      readonly traces?: readonly EncodedTrace[];
      /** Times of the step; absent if the event of an earlier step is repeated. */
      readonly taken?: TakenStep;
    }
  | { readonly kind: 'warning'; readonly warning: JobWarning };

/** Wall times of a step taken in this run. */
export interface TakenStep {
  readonly seconds: number;
  /**
   * Null after the last step, whose weights are the output version; `sizeBytes` null if the learner does not
   * report it.
   */
  readonly snapshot: { readonly seconds: number; readonly sizeBytes: number | null } | null;
}

/** Counts, drops by reason, and the outcome of each group, with wire names so that they are passed on unchanged. */
export type TrainingStartedData = Readonly<
  Record<string, number | Readonly<Record<string, number>> | readonly string[]>
>;

export interface TrainingResult {
  /** 0: nothing was trained, and no files were written. */
  readonly numGradientSteps: number;
  /** sha256 of `adapter_model.safetensors`, hex; null if nothing was trained. */
  readonly digest: string | null;
  /** Mean, or maximum, of each metric over the gradient steps. */
  readonly metrics: Readonly<Record<string, number>>;
}

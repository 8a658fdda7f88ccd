import type { ChatTemplate } from '@trainyard/tokenizer';
import type { LoraConfig } from '@trainyard/transformer';
import type { TrainingConfig } from '../config/training-config.ts';
import type { LearnerSession } from '../learner/learner-session.ts';
import type { JobWarning } from './job-warning.ts';
import type { ProgressRecords } from './progress-records.ts';
import type { EncodedTrace, TraceRecords } from './trace-records.ts';
import type { TrajectoryOutcome } from '../rollouts/sequence-report.ts';
import type { TrajectoryGroup } from '../rollouts/trajectory.ts';

/**
 * Fields of every job, whatever it learns from. Adapter versions are named as the learner names them: keys, paths, addresses.
 */
export interface JobBase {
  readonly jobId: string;
  readonly lora: LoraConfig;
  /** Version to go on from, weights and optimizer; null: a fresh adapter. */
  readonly startFrom: string | null;
  /** The optimizer starts afresh, whatever `startFrom` holds: its momentum belongs to another model. Default false. */
  readonly withFreshOptimizer?: boolean;
  /** Names of snapshots begin with it: one is kept after each gradient step but the last, so that a job cut off goes on where it was. */
  readonly snapshots: string;
  /** The version that the job makes; appears whole or not at all. */
  readonly output: string;
}

/** Weights that training on rollouts began with; `gone`: they were deleted. */
export type RolloutsBeginning = 'base' | 'gone' | { readonly version: string };

/** One reinforcement-learning job, self-contained: the same job and weights give the same checkpoint. */
export interface TrainingJob extends JobBase {
  readonly groups: readonly TrajectoryGroup[];
  readonly config: TrainingConfig;
  /** Version of the KL reference; absent or null: the base model. Read only when the settings compare with one. */
  readonly referenceFrom?: string | null;
  /** Versions that choices may have been drawn with, by digest. Default: none besides the base model. */
  readonly policyVersions?: ReadonlyMap<string, string>;
  /** The weights that the model's training on rollouts began with. Default: the base model. */
  readonly beganFrom?: RolloutsBeginning;
  /** Seed of the shuffles. */
  readonly seed: number;
}

/** Dependencies of a job. */
export interface TrainingParts {
  /** Its adapter is overwritten with the job's; its `lora` must be the job's. */
  readonly learner: LearnerSession;
  /** Template of the model that the learner trains, as used for sampling. */
  readonly template: ChatTemplate;
  /** How far jobs got, on the side of the loop. */
  readonly progress: ProgressRecords;
  /** Keep the tokens of each gradient step of rollouts, with what sampler and trainer said of them. Default: nothing is kept. */
  readonly traces?: TraceRecords;
  readonly signal: AbortSignal;
  readonly emit: (event: TrainerEvent) => void;
}

/**
 * `training_started` once, then one `gradient_step` for each step (batch), in order, with warnings anywhere behind the start. The terminal
 * event is the caller's to write.
 */
export type TrainerEvent =
  | {
      readonly kind: 'training_started';
      readonly numGradientSteps: number;
      readonly data: TrainingStartedData;
      /** The fate of each submitted trajectory, by group; a job on rollouts tells it. */
      readonly outcomes?: readonly (readonly TrajectoryOutcome[])[];
    }
  | {
      readonly kind: 'gradient_step';
      readonly index: number;
      readonly metrics: Readonly<Record<string, number>>;
      /** Tokens of its trajectories, where they are kept. */
      readonly traces?: readonly EncodedTrace[];
      /** How long it took; absent for a step of an earlier life, which is told once more. */
      readonly taken?: TakenStep;
    }
  | { readonly kind: 'warning'; readonly warning: JobWarning };

/** Wall times of a step that was taken just now. */
export interface TakenStep {
  readonly seconds: number;
  /** Null behind the last step, whose weights are the version that the job makes; `sizeBytes` null where the learner does not tell it. */
  readonly snapshot: { readonly seconds: number; readonly sizeBytes: number | null } | null;
}

/** Counts, drops by reason, and what became of each group, under the names of the wire so that it is passed on as it is. */
export type TrainingStartedData = Readonly<
  Record<string, number | Readonly<Record<string, number>> | readonly string[]>
>;

export interface TrainingResult {
  /** 0: nothing was trained, and no files were written. */
  readonly numGradientSteps: number;
  /** sha256 of `adapter_model.safetensors`, in hex; null when nothing was trained. */
  readonly digest: string | null;
  /** Mean over the gradient steps of each metric, or their maximum. */
  readonly metrics: Readonly<Record<string, number>>;
}

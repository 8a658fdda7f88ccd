import type { ChatTemplate } from '@trainyard/tokenizer';
import type { LoraConfig } from '@trainyard/transformer';
import type { TrainingConfig } from '../config/training-config.ts';
import type { LearnerSession } from '../learner/learner-session.ts';
import type { JobWarning } from './job-warning.ts';
import type { ProgressRecords } from './progress-records.ts';
import type { EncodedTrace, TraceRecords } from './trace-records.ts';
import type { TrajectoryOutcome } from '../rollouts/sequence-report.ts';
import type { TrajectoryGroup } from '../rollouts/trajectory.ts';

/** Adapter versions have the learner's names: keys, paths, addresses. */
export interface JobBase {
  readonly jobId: string;
  readonly lora: LoraConfig;
  /** Weights and optimizer; null: a fresh adapter. */
  readonly startFrom: string | null;
  /** Drops the momentum of `startFrom`, which belongs to another model. Default false. */
  readonly withFreshOptimizer?: boolean;
  /**
   * Name prefix: one snapshot is kept after each gradient step except the last, so that an interrupted job can
   * resume.
   */
  readonly snapshots: string;
  /** Appears complete or not at all. */
  readonly output: string;
}

/** Weights that training on rollouts started with; `gone`: deleted. */
export type RolloutsBeginning = 'base' | 'gone' | { readonly version: string };

/** The same job and weights give the same checkpoint. */
export interface TrainingJob extends JobBase {
  readonly groups: readonly TrajectoryGroup[];
  readonly config: TrainingConfig;
  /** Version of the KL reference; default: the base model. Read only if needed. */
  readonly referenceFrom?: string | null;
  /** Versions that may have drawn choices, by digest. Default: only the base model. */
  readonly policyVersions?: ReadonlyMap<string, string>;
  /** Default: the base model. */
  readonly beganFrom?: RolloutsBeginning;
  readonly seed: number;
}

export interface TrainingParts {
  /** Has the job's `lora`; its adapter is overwritten. */
  readonly learner: LearnerSession;
  /** Template of the trained model, as used for sampling. */
  readonly template: ChatTemplate;
  /** Jobs' progress. */
  readonly progress: ProgressRecords;
  /** Tokens of each gradient step on rollouts, with log-probabilities of sampler and trainer. Default: none. */
  readonly traces?: TraceRecords;
  readonly signal: AbortSignal;
  readonly emit: (event: TrainerEvent) => void;
}

/**
 * `training_started` once, then one `gradient_step` per step (batch), in order, with warnings and `held_out`
 * anywhere after the start. The caller writes the terminal event.
 */
export type TrainerEvent =
  | {
      readonly kind: 'training_started';
      readonly numGradientSteps: number;
      readonly data: TrainingStartedData;
      /** Outcomes of submitted trajectories, by group; only for jobs on rollouts. */
      readonly outcomes?: readonly (readonly TrajectoryOutcome[])[];
    }
  | {
      readonly kind: 'gradient_step';
      readonly index: number;
      readonly metrics: Readonly<Record<string, number>>;
      /** Tokens, if kept. */
      readonly traces?: readonly EncodedTrace[];
      /** Absent if the event of an earlier step is repeated. */
      readonly taken?: TakenStep;
    }
  | {
      readonly kind: 'held_out';
      /** Gradient steps that the measured weights have taken in this job. */
      readonly numSteps: number;
      readonly measures: HeldOutMeasures;
    }
  | { readonly kind: 'warning'; readonly warning: JobWarning };

/** Wire names. */
export interface HeldOutMeasures {
  /** Mean −log p per token, nats. */
  readonly loss: number;
  readonly num_trajectories: number;
  readonly num_trainable_tokens: number;
  /** Wall time, including waiting for the cores. */
  readonly seconds: number;
}

/** Wall times. */
export interface TakenStep {
  readonly seconds: number;
  /** Null after the last step, whose weights are the output; `sizeBytes` null if the learner does not report it. */
  readonly snapshot: { readonly seconds: number; readonly sizeBytes: number | null } | null;
}

/** Counts, drops by reason, and the outcome of each group, with wire names. */
export type TrainingStartedData = Readonly<
  Record<string, number | Readonly<Record<string, number>> | readonly string[]>
>;

export interface TrainingResult {
  /** 0: no files were written. */
  readonly numGradientSteps: number;
  /** sha256 of `adapter_model.safetensors`, hex; null if nothing was trained. */
  readonly digest: string | null;
  /** Mean, or maximum, of each metric over the gradient steps; `held_out/loss` of the resulting weights. */
  readonly metrics: Readonly<Record<string, number>>;
}

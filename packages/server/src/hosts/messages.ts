import type { EngineEvent, EngineStats, GenerateRequest } from '@trainyard/engine';
import type { LoraConfig, TrainerEvent, TrainingConfig, TrainingResult } from '@trainyard/trainer';

import type { CoreCommand, CoreMessage } from './core-lease.ts';

/** What an engine host is started with. Both model files are paths on this machine. */
export interface EngineHostOptions {
  /** the file as configured, any quantisation */
  readonly modelPath: string;
  /** `exact` serves (and makes once, beside it) a half-precision copy, so that sampler and trainer agree; `fast` serves the file as it is */
  readonly precision: 'exact' | 'fast';
  /** where the copy goes; ids and file names are ours, never a user's */
  readonly cacheDirectory: string;
  readonly numThreads: number;
  /** KV cache size over all sequences, in tokens */
  readonly capacityTokens: number;
  readonly maxSequences: number;
  /** requests that may wait; one more is refused */
  readonly maxWaiting: number;
}

export interface TrainerHostOptions {
  /** root of the blobs that hold groups and checkpoints */
  readonly blobsDirectory: string;
  readonly numThreads: number;
}

/** What the engine host says about the model it serves. */
export interface ServedModel {
  /** the file really loaded: the trainer trains on exactly these weights */
  readonly path: string;
  readonly architecture: string;
  readonly contextLength: number;
  readonly vocabSize: number;
}

/** One training job as the trainer host runs it: keys and paths, no bodies. */
export interface TrainingJobRequest {
  readonly jobId: string;
  readonly modelPath: string;
  /** blob that holds the trajectory groups, as they came over the wire */
  readonly groupsKey: string;
  readonly config: TrainingConfig;
  readonly lora: LoraConfig;
  /** checkpoint directory to go on from; null = a fresh adapter */
  readonly startFrom: string | null;
  readonly workDirectory: string;
  readonly outputDirectory: string;
  readonly seed: number;
}

export interface HostFailure {
  readonly code: string;
  readonly message: string;
}

export type EngineHostCommand =
  | CoreCommand
  | { kind: 'generate'; request: GenerateRequest }
  | { kind: 'abort'; requestId: string }
  | { kind: 'pause'; requestId: string; isPaused: boolean }
  | { kind: 'shutdown' };

export type EngineHostMessage =
  | CoreMessage
  | { kind: 'ready'; model: ServedModel }
  | { kind: 'fatal'; failure: HostFailure }
  /** everything one engine step produced, in order */
  | { kind: 'engine-events'; events: [requestId: string, event: EngineEvent][]; stats: EngineStats };

export type TrainerHostCommand =
  | CoreCommand
  | { kind: 'run-job'; job: TrainingJobRequest }
  | { kind: 'cancel-job'; jobId: string }
  | { kind: 'shutdown' };

export type TrainerHostMessage =
  | CoreMessage
  | { kind: 'ready' }
  | { kind: 'fatal'; failure: HostFailure }
  | { kind: 'trainer-event'; jobId: string; event: TrainerEvent }
  | { kind: 'job-done'; jobId: string; result: TrainingResult }
  | { kind: 'job-failed'; jobId: string; failure: HostFailure };

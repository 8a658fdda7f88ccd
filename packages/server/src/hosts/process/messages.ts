import type {
  AdapterRef,
  BackendMember,
  EngineFailure,
  EngineStats,
  LoadedVersion,
  FixedScores,
} from '@trainyard/backend';
import type { TokenizeInput } from '@trainyard/generation';
import type {
  ExportRequest,
  ExportResult,
  HeldOutSource,
  ImportedAdapter,
  ImportRequest,
  JobBase,
  Retry,
  RolloutsBeginning,
  SftConfig,
  TrainerEvent,
  TrainerOptions,
  TrainingConfig,
  TrainingResult,
} from '@trainyard/trainer';
import type { BlobLocation, BucketRequest, JobSnapshot } from '@trainyard/store';
import type { TinkerProfileName } from '@trainyard/tinker';

import type { CheckpointManifest } from '../../seams/data/checkpoint-manifest.ts';
import type { ServedModel } from './opened-text.ts';

export interface TrainerHostOptions {
  /** location of groups and checkpoints; the credentials of a bucket come by the environment */
  readonly blobs: BlobLocation;
  /** folder of the snapshots of running jobs */
  readonly workDirectory: string;
  readonly numThreads: number;
  /** control tokens written in messages become those tokens */
  readonly allowsControlTokens: boolean;
  /** log-probabilities equal the sampler's bit for bit */
  readonly isDeterministic: boolean;
  /** oneDNN library for matrices in bf16; null: single precision */
  readonly oneDnnPath: string | null;
  /** frozen weights in memory, or in the model file */
  readonly weights: NonNullable<TrainerOptions['weights']>;
  /** remote training server; null: train on this machine */
  readonly remote: RemoteTrainerOptions | null;
}

/**
 * A server of the Tinker protocol. Its key comes with each job, because other users can read a process's
 * options.
 */
export interface RemoteTrainerOptions {
  readonly url: string;
  readonly profile: TinkerProfileName;
  /** name of the base model there; null: its only one */
  readonly baseModel: string | null;
  /** time limit of one remote operation */
  readonly timeoutMs: number;
  /** folder for state that must survive a crash: remote models to unload */
  readonly stateDirectory: string;
}

/** Settings of a job, for reward-labelled rollouts or conversations. */
export type TrainingJobConfig =
  | { readonly kind: 'rl'; readonly config: TrainingConfig }
  | { readonly kind: 'sft'; readonly config: SftConfig; readonly heldOut: HeldOutSource | null };

/**
 * One training job as the trainer host runs it: blob keys, no bodies and no paths except the base model's.
 * Adapter versions are keys of blob directories; the host commits `output` before it reports the job as done.
 */
export type TrainingJobRequest = TrainingJobConfig &
  JobBase & {
    readonly modelPath: string;
    /** metadata of `output`, to recover from a lost database; absent: none */
    readonly manifest?: CheckpointManifest;
    /** blob with the trajectory groups or the conversations, as received */
    readonly dataKey: string;
    /** key of the KL reference; null = the base model; absent = none */
    readonly referenceFrom?: string | null;
    /** keys of the model's newest checkpoints, by digest: any of them may have sampled the choices */
    readonly policyVersions?: ReadonlyMap<string, string>;
    /** Initial weights of training on rollouts, as a blob key; absent: the base model. */
    readonly beganFrom?: RolloutsBeginning;
    readonly seed: number;
    /** progress on another machine; null or absent: none known */
    readonly snapshot?: JobSnapshot | null;
    /** send the tokens of each gradient step with it; only for rollouts */
    readonly keepsTraces: boolean;
    /** sampler's scores of the base model, to compare a remote server with; null or absent: none */
    readonly baseScores?: FixedScores | null;
  };

export interface HostFailure {
  readonly code: string;
  readonly message: string;
}

export interface RunFailure extends HostFailure {
  readonly retry: Retry;
}

export type EngineHostCommand =
  /** `request`: see `requestText`. */
  | { kind: 'generate'; request: string }
  | { kind: 'abort'; requestId: string }
  | { kind: 'pause'; requestId: string; isPaused: boolean }
  | { kind: 'retire'; digest: string }
  | CodecCommand
  /** Answered by one `pong`, between two steps. */
  | { kind: 'ping' }
  | { kind: 'shutdown' };

/** Text to ids and back, and other calls with one answer: each gets one `CodecReply` with the same id. */
export type CodecCommand =
  | { kind: 'tokenize'; requestId: string; input: TokenizeInput; withTexts: boolean }
  | { kind: 'detokenize'; requestId: string; tokenIds: readonly number[] }
  | { kind: 'token-texts'; requestId: string; tokenIds: readonly number[] }
  /** Loads an adapter before a request names it. */
  | { kind: 'publish'; requestId: string; adapter: AdapterRef };

export type CodecReply =
  | { kind: 'tokenized'; requestId: string; tokenIds: number[]; texts: string[] | null }
  | { kind: 'detokenized'; requestId: string; text: string }
  | { kind: 'token-texts'; requestId: string; texts: string[] }
  /** `partial`: reason if some of its servers did not load it; null: all did. */
  | { kind: 'published'; requestId: string; partial: string | null }
  | ({ kind: 'codec-failed'; requestId: string } & EngineFailure);

export type EngineHostMessage =
  | CodecReply
  | { kind: 'ready'; model: ServedModel }
  | { kind: 'fatal'; failure: HostFailure }
  /** `problem`: reason why sampling is unreliable now; null if all is well. */
  | {
      kind: 'pong';
      stats: EngineStats;
      problem: string | null;
      members: readonly BackendMember[];
      adapters: readonly LoadedVersion[];
    }
  | { kind: 'log'; line: string }
  /**
   * All events of one engine step, in order: see `requestEventsText`. `stats`: `EngineStats` as JSON, parsed
   * on demand.
   */
  | { kind: 'engine-events'; events: string; stats: string };

/** Order to copy the newest snapshot of a job to a blob directory. */
export interface SnapshotCopyOrder {
  readonly snapshots: string;
  readonly directoryKey: string;
}

export type TrainerHostCommand =
  | { kind: 'run-job'; job: TrainingJobRequest; remoteKey: string | null }
  /** Ask the remote trainer for its facts. */
  | { kind: 'contact-remote'; remoteKey: string | null }
  | ({ kind: 'copy-snapshot' } & SnapshotCopyOrder)
  | { kind: 'cancel-job'; jobId: string }
  | { kind: 'shutdown' };

export type TrainerHostMessage =
  | { kind: 'ready' }
  | { kind: 'fatal'; failure: HostFailure }
  | { kind: 'remote-contacted'; lines: readonly string[] }
  | { kind: 'remote-refused'; failure: HostFailure }
  /** Sent when the remote trainer stops answering, and when it answers again (null). */
  | { kind: 'remote-state'; absence: string | null }
  /** Largest rank of the remote trainer; comes after its contact, unless it does not report one. */
  | { kind: 'remote-max-rank'; maxRank: number }
  | { kind: 'trainer-event'; jobId: string; event: TrainerEvent }
  | { kind: 'bucket-request'; request: BucketRequest }
  | { kind: 'snapshot-copied'; directoryKey: string; numGradientSteps: number | null }
  | { kind: 'snapshot-failed'; directoryKey: string; failure: HostFailure }
  | { kind: 'log'; line: string }
  | { kind: 'job-done'; jobId: string; result: TrainingResult }
  | { kind: 'job-failed'; jobId: string; failure: RunFailure };

export interface TransferHostOptions {
  readonly numThreads: number;
}

/** A transfer host gets one of the first two, once. */
export type TransferHostCommand =
  | { kind: 'export-checkpoint'; request: ExportRequest }
  | { kind: 'import-adapter'; request: ImportRequest }
  | { kind: 'shutdown' };

export type TransferHostMessage =
  | { kind: 'ready' }
  | { kind: 'fatal'; failure: HostFailure }
  | { kind: 'exported'; result: ExportResult }
  | { kind: 'imported'; adapter: ImportedAdapter }
  | { kind: 'transfer-failed'; failure: HostFailure };

/** Commands and messages of a host that `askHost` starts. */
export type Shutdown = { kind: 'shutdown' };
export type Answered<Answer> = { kind: 'ready'; answer: Answer };

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
  ImportedAdapter,
  ImportRequest,
  JobBase,
  Retry,
  RolloutsBeginning,
  SftConfig,
  TrainerEvent,
  TrainingConfig,
  TrainingResult,
} from '@trainyard/trainer';
import type { BlobLocation, BucketRequest, JobSnapshot } from '@trainyard/store';
import type { TinkerProfileName } from '@trainyard/tinker';

import type { CheckpointManifest } from '../../seams/data/checkpoint-manifest.ts';
import type { ServedModel } from './opened-text.ts';

export interface TrainerHostOptions {
  /** where groups and checkpoints are; the key of a bucket comes by the environment */
  readonly blobs: BlobLocation;
  /** folder of the snapshots of running jobs */
  readonly workDirectory: string;
  readonly numThreads: number;
  /** the texts of control tokens in messages become those tokens */
  readonly allowsControlTokens: boolean;
  /** log-probabilities are the sampler's to the bit */
  readonly isDeterministic: boolean;
  /** matrices are in bf16, multiplied by that oneDNN; null: in single precision */
  readonly oneDnnPath: string | null;
  /** the server that trains in place of this machine; null: none */
  readonly remote: RemoteTrainerOptions | null;
}

/** A server of the Tinker protocol. Its key comes with each job: options of a process can be read by others. */
export interface RemoteTrainerOptions {
  readonly url: string;
  readonly profile: TinkerProfileName;
  /** name of the base model there; null: the only one that it has */
  readonly baseModel: string | null;
  /** how long one operation there may take */
  readonly timeoutMs: number;
  /** folder for what must outlive a crash: models there that have to be unloaded */
  readonly stateDirectory: string;
}

/** The data that a job learns from: reward-labelled rollouts or conversations. */
export type TrainingJobConfig =
  | { readonly kind: 'rl'; readonly config: TrainingConfig }
  | { readonly kind: 'sft'; readonly config: SftConfig };

/**
 * One training job as the trainer host runs it: blob keys, no bodies and no paths but the base model's. Adapter versions are keys of blob
 * directories; `output` is committed by the host before it reports the job done.
 */
export type TrainingJobRequest = TrainingJobConfig &
  JobBase & {
    readonly modelPath: string;
    /** describes `output` for a service whose database is lost; absent: nothing does */
    readonly manifest?: CheckpointManifest;
    /** blob that holds the trajectory groups or the conversations, as they came over the wire */
    readonly dataKey: string;
    /** key of the KL reference; null = the base model; absent = the job has none */
    readonly referenceFrom?: string | null;
    /** keys of the model's newest checkpoints, by digest: choices may have been drawn with any of them */
    readonly policyVersions?: ReadonlyMap<string, string>;
    /** The weights that training on rollouts began with, as a blob key; absent: the base model. */
    readonly beganFrom?: RolloutsBeginning;
    readonly seed: number;
    /** how far it got on another machine; null or absent: nowhere, as far as the blobs know */
    readonly snapshot?: JobSnapshot | null;
    /** the tokens of each gradient step are told with it; of rollouts only */
    readonly keepsTraces: boolean;
    /** the base model as it is sampled from, for a server elsewhere to be compared with; null or absent: nothing to compare with */
    readonly baseScores?: FixedScores | null;
  };

export interface HostFailure {
  readonly code: string;
  readonly message: string;
}

/** Why a run did not end in a result, and whether running it again is worth anything. */
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

/** Text to ids and back, and whatever else is one question and one answer: answered by one `CodecReply` with the same id. */
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
  /** `partial`: why a part of its servers did not load it; null: none refused it. */
  | { kind: 'published'; requestId: string; partial: string | null }
  | ({ kind: 'codec-failed'; requestId: string } & EngineFailure);

export type EngineHostMessage =
  | CodecReply
  | { kind: 'ready'; model: ServedModel }
  | { kind: 'fatal'; failure: HostFailure }
  /** `trouble`: why what samples cannot be relied on now; null when all is well. */
  | {
      kind: 'pong';
      stats: EngineStats;
      trouble: string | null;
      members: readonly BackendMember[];
      adapters: readonly LoadedVersion[];
    }
  /** for the log of the service */
  | { kind: 'log'; line: string }
  /** Everything one engine step produced, in order: see `requestEventsText`. `stats`: `EngineStats` as JSON, which is read when somebody asks. */
  | { kind: 'engine-events'; events: string; stats: string };

/** The newest snapshot of a job is to become a directory of the blobs. */
export interface SnapshotCopyOrder {
  /** as `JobBase.snapshots` */
  readonly snapshots: string;
  readonly directoryKey: string;
}

export type TrainerHostCommand =
  | { kind: 'run-job'; job: TrainingJobRequest; remoteKey: string | null }
  /** Ask the trainer elsewhere what it is. */
  | { kind: 'contact-remote'; remoteKey: string | null }
  | ({ kind: 'copy-snapshot' } & SnapshotCopyOrder)
  | { kind: 'cancel-job'; jobId: string }
  | { kind: 'shutdown' };

export type TrainerHostMessage =
  | { kind: 'ready' }
  | { kind: 'fatal'; failure: HostFailure }
  /** Lines for the log. */
  | { kind: 'remote-contacted'; lines: readonly string[] }
  | { kind: 'remote-refused'; failure: HostFailure }
  /** Told when the trainer elsewhere stops answering, and when it answers again (null). */
  | { kind: 'remote-state'; absence: string | null }
  /** The largest rank of the trainer elsewhere; comes after its contact, and not where it does not tell. */
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

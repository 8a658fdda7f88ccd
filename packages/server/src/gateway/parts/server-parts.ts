import type { Blobs, LastKnown, Store } from '@trainyard/store';
import type { LogprobsMode } from '@trainyard/protocol/fields';

import type { BackgroundAnswers } from '../background/background-answers.ts';
import type { BodyIntake } from '../bodies/body-intake.ts';
import type { BodyBudgets } from '../bodies/byte-budget.ts';
import type { ServiceMetrics } from '../../seams/metrics/service-metrics.ts';
import type { GuideLibrary } from '../guides/guide-library.ts';
import type { DashboardFiles } from '../pages/dashboard-files.ts';
import type { MetricsAccess } from '../../seams/metrics/metrics-access.ts';
import type { AnswerMemory } from '../../seams/streams/answer-memory.ts';
import type { RunTracking } from '../../jobs/tracking/run-mirror.ts';
import type { Drain } from '../../seams/health/drain.ts';
import type { ServiceHealth } from '../../seams/health/service-health.ts';
import type { KeepPolicy } from '../../jobs/checkpoints/keep-policy.ts';
import type { VersionUse } from '../../jobs/checkpoints/version-use.ts';
import type { HubBases } from '../../seams/contract/hub-bases.ts';
import type { BaseModels } from '../../seams/contract/base-models.ts';
import type { ResolvedModel } from '../../seams/contract/model-names.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { Tracing } from '../../seams/tracing/tracing.ts';
import type { AdapterImporter, ExportQueue, InferenceBackend, TrainingQueue } from '../../seams/contract/backends.ts';

/** Limits of the machine: a problem with them, and figures as of the last check. */
export interface WatchedMachine {
  readonly problem: string | null;
  readonly state?: { readonly freeDiskBytes: number | null; readonly syncSeconds: number | null };
}

export interface ServerParts {
  store: Store;
  blobs: Blobs;
  inference: InferenceBackend;
  training: TrainingQueue;
  exports: ExportQueue;
  imports: AdapterImporter;
  /** Milliseconds since the epoch; default: the store's clock. */
  clock?: () => number;
  /** Receives one line for each failure without details for the client. Default: none. */
  log?: Log;
  limits?: Partial<HttpLimits>;
  /** Default: budgets from the limits. */
  bodyBudgets?: BodyBudgets;
  /** Limits of the machine. Default: not watched. */
  machine?: WatchedMachine;
  /** Default: a memory of the usual size. */
  answerMemory?: AnswerMemory;
  /** Adds reasoning under its older name `reasoning_content`, too. Default false. */
  hasReasoningContent?: boolean;
  /** Maximum log-probabilities per token that a request may ask for; -1 = the whole vocabulary. Default 20. */
  maxLogprobs?: number;
  /** Default distribution for log-probabilities. Default `raw`. */
  logprobsMode?: LogprobsMode;
  /** Records choices of trained models under an id, for training. Default true. */
  keepsChoiceRecords?: boolean;
  /** Keeps answers of `/v1/responses` for clients. Default true. */
  keepsAnswers?: boolean;
  /** Folder for the files of `file:` URLs of training data. Default null: none. */
  trainingDataDirectory?: string | null;
  /** Base models of a hub that clients may name. Default null: none. */
  hub?: HubBases | null;
  /** External tracker of runs. Default null: none. */
  tracking?: RunTracking | null;
  /** Traces requests. Default null: no tracing. */
  tracing?: Tracing | null;
  /** Entity whose admins manage the keys of all entities. Default null: each manages only its own. */
  operatorEntity?: string | null;
  /** Policy for kept checkpoints, for their list. Default null: all are kept. */
  keepPolicy?: KeepPolicy | null;
  /** Time for which model names keep their last resolution while the database is away, ms. Default 0. */
  outageMs?: number;
  /** Shutdown of this process. Default: it does not end. */
  drain?: Drain;
  /** Notices for the operator, for `/health`. Default: none. */
  notices?: () => readonly string[];
  /** Source of `GET /metrics`. Default: new metrics, without jobs. */
  metrics?: ServiceMetrics;
  /** Access to the metrics. Default `open`. */
  metricsAccess?: MetricsAccess;
  /** Pages for people at `/`. Default null: the page with connection examples. */
  dashboard?: DashboardFiles | null;
  /** Documents at `/guides`. Default null: none. */
  guides?: GuideLibrary | null;
  /**
   * Names allowed in `Host`, in addition to the loopback names; `.example.com` = all below it, `*` = all.
   * Default: none.
   */
  allowedHosts?: readonly string[];
  /**
   * Origins whose pages may read answers; `localhost` = all pages of this machine, `*` = all. Default
   * `localhost`.
   */
  allowedOrigins?: readonly string[];
}

export interface HttpLimits {
  /** Largest body of a chat request, bytes. */
  chatBodyBytes: number;
  /**
   * Largest body of a preview request, bytes. It is held in memory as one string and parsed at once, which
   * blocks the event loop for about 10 ms per MB; V8 has no strings of 2^29 characters.
   */
  previewBodyBytes: number;
  /** Slowest pace of an incoming body, bytes per second, over windows of `bodyWindowMs`. */
  minBodyBytesPerSecond: number;
  bodyWindowMs: number;
  /** Time limit of a whole body, ms. */
  bodyTimeoutMs: number;
  /** Maximum wait of a body for memory before it is refused, ms. */
  maxBodyWaitMs: number;
  /** Maximum time that a client may read nothing of its answer, ms; 0: no limit. */
  readerTimeoutMs: number;
  /**
   * Wait of a stream for its first output before it starts with a comment, ms: until then refusals have their
   * own status.
   */
  firstSignMs: number;
}

export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  chatBodyBytes: 8_000_000,
  previewBodyBytes: 512_000_000,
  minBodyBytesPerSecond: 500,
  bodyWindowMs: 20_000,
  bodyTimeoutMs: 600_000,
  maxBodyWaitMs: 60_000,
  readerTimeoutMs: 60_000,
  firstSignMs: 15_000,
};

/** Parts for routes, with defaults filled in. */
export interface RouteParts extends ServerParts {
  baseModels: BaseModels;
  clock: () => number;
  log: Log;
  limits: HttpLimits;
  /** Reads every body. */
  intake: BodyIntake;
  bodyBudgets: BodyBudgets;
  answerMemory: AnswerMemory;
  machine: WatchedMachine;
  hasReasoningContent: boolean;
  maxLogprobs: number;
  logprobsMode: LogprobsMode;
  keepsChoiceRecords: boolean;
  keepsAnswers: boolean;
  background: BackgroundAnswers;
  trainingDataDirectory: string | null;
  hub: HubBases | null;
  tracking: RunTracking | null;
  tracing: Tracing | null;
  operatorEntity: string | null;
  keepPolicy: KeepPolicy | null;
  versionUse: VersionUse;
  /** Keyed by entity and requested name. */
  resolvedModels: LastKnown<ResolvedModel>;
  drain: Drain;
  health: ServiceHealth;
  notices: () => readonly string[];
  metricsAccess: MetricsAccess;
  dashboard: DashboardFiles | null;
  guides: GuideLibrary | null;
  allowedHosts: readonly string[];
  allowedOrigins: readonly string[];
}

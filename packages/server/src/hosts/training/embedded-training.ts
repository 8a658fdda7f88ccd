import { fileURLToPath } from 'node:url';

import type { BucketRequest } from '@trainyard/store';
import type { Retry, TrainerEvent, TrainingResult } from '@trainyard/trainer';

import type { ComputeShares } from '../computing/compute-arbiter.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import { ComputingHost } from '../process/computing-host.ts';
import type {
  RunFailure,
  TrainerHostCommand,
  TrainerHostMessage,
  TrainerHostOptions,
  TrainingJobRequest,
} from '../process/messages.ts';
import type { SupervisedHost } from '../process/supervised-host.ts';

const RESTART_WAIT_MS = 30_000;
const MEMORY_REMEDY =
  'Train with a smaller `packed_sequence_length`, shorter trajectories or a lower rank, or add memory (base models use --model-memory-megabytes of it)';

export class TrainingRunError extends Error {
  override readonly name = 'TrainingRunError';
  /** from the trainer, or from an error it met */
  readonly code: string;
  /**
   * `'resume'`: the job can be run again and continues from its last gradient step; `'wait'`: the same, once
   * resources are free
   */
  readonly retry: Retry;

  constructor(failure: RunFailure) {
    super(failure.message);
    this.code = failure.code;
    this.retry = failure.retry;
  }
}

export interface TrainingBackend {
  /**
   * @param onEvent called in order; after a restart the events of finished steps are repeated, identical
   * @throws {TrainingRunError}
   */
  run(
    job: TrainingJobRequest,
    options: { signal: AbortSignal; onEvent: (event: TrainerEvent) => void },
  ): Promise<TrainingResult>;
  /**
   * Copies the newest snapshot of a job that runs, or ran last, to a blob directory. The job continues
   * meanwhile.
   * @param snapshots as in the job's request
   * @returns its number of gradient steps; null if there is no snapshot yet
   * @throws {TrainingRunError} the key is then unused, or its content an orphan
   */
  copySnapshot(snapshots: string, directoryKey: string): Promise<number | null>;
  /** Reason why it does not work as it should, without file names; null if it works. */
  problem(): string | null;
}

/** Training in a supervised child process: with ONNX Runtime, or by a remote server. */
export class EmbeddedTraining implements TrainingBackend {
  readonly #host: SupervisedHost<TrainerHostCommand, TrainerHostMessage>;
  readonly #remoteKey: string | null;
  readonly #log: (line: string) => void;
  readonly #onBucketRequest: (request: BucketRequest) => void;
  readonly #runs = new Map<string, JobRun>();
  /** by directory key */
  readonly #copies = new Map<string, PromiseWithResolvers<number | null>>();
  #contact: PromiseWithResolvers<readonly string[]> | null = null;
  #remoteMaxRank: number | null = null;
  #remoteAbsence: string | null = null;

  constructor(options: {
    host: TrainerHostOptions;
    /** of `host.remote`; default: it needs none */
    remoteKey?: string | null;
    secrets?: Readonly<Record<string, string>>;
    arbiter: ComputeShares;
    share: number;
    niceness: number;
    /** called for each bucket request of the host; default: none */
    onBucketRequest?: (request: BucketRequest) => void;
    log: (line: string) => void;
  }) {
    this.#onBucketRequest = options.onBucketRequest ?? (() => undefined);
    this.#remoteKey = options.remoteKey ?? null;
    this.#log = options.log;
    this.#host = new ComputingHost<TrainerHostCommand, TrainerHostMessage>({
      name: 'trainer',
      modulePath: fileURLToPath(new URL('./trainer-host.ts', import.meta.url)),
      options: options.host,
      secrets: options.secrets ?? {},
      memoryRemedy: MEMORY_REMEDY,
      onMessage: (message) => this.#onMessage(message),
      onLost: (reason) => this.#onLost(reason),
      log: options.log,
      arbiter: options.arbiter,
      share: options.share,
      niceness: options.niceness,
    }).host;
  }

  async start(): Promise<void> {
    await this.#host.start();
  }

  /**
   * Asks the remote trainer for its facts, from the host that uses it. If the server does not answer, a line
   * reports it, and jobs wait.
   * @returns lines for the log
   * @throws {ServerError} `server.config_invalid` for an unusable server
   */
  async contactRemote(): Promise<readonly string[]> {
    const contact = (this.#contact = Promise.withResolvers<readonly string[]>());
    if (!this.#host.send({ kind: 'contact-remote', remoteKey: this.#remoteKey }))
      throw new TrainingRunError(hostLost('unreachable'));
    return await contact.promise;
  }

  async close(): Promise<void> {
    await this.#host.close();
  }

  /** Largest rank of the remote trainer; null until reported. */
  get remoteMaxRank(): number | null {
    return this.#remoteMaxRank;
  }

  problem(): string | null {
    return this.#host.problem ?? this.#remoteAbsence;
  }

  async run(
    job: TrainingJobRequest,
    options: { signal: AbortSignal; onEvent: (event: TrainerEvent) => void },
  ): Promise<TrainingResult> {
    const { signal, onEvent } = options;
    try {
      await this.#host.whenReady(RESTART_WAIT_MS, signal);
      signal.throwIfAborted();
    } catch (error) {
      throw signal.aborted ? error : new TrainingRunError(hostLost((error as Error).message));
    }
    const settled = Promise.withResolvers<TrainingResult>();
    this.#runs.set(job.jobId, { onEvent, settled });
    const cancel = () => this.#host.send({ kind: 'cancel-job', jobId: job.jobId });
    signal.addEventListener('abort', cancel, { once: true });
    try {
      const isSent = this.#host.send({ kind: 'run-job', job, remoteKey: this.#remoteKey });
      if (!isSent) throw new TrainingRunError(hostLost('unreachable'));
      return await settled.promise;
    } finally {
      signal.removeEventListener('abort', cancel);
      this.#runs.delete(job.jobId);
    }
  }

  async copySnapshot(snapshots: string, directoryKey: string): Promise<number | null> {
    const settled = Promise.withResolvers<number | null>();
    this.#copies.set(directoryKey, settled);
    try {
      const isSent = this.#host.send({ kind: 'copy-snapshot', snapshots, directoryKey });
      if (!isSent) throw new TrainingRunError(hostLost('unreachable'));
      return await settled.promise;
    } finally {
      this.#copies.delete(directoryKey);
    }
  }

  #onMessage(message: TrainerHostMessage): void {
    switch (message.kind) {
      case 'ready':
        // A restarted host does not watch the server yet.
        if (this.#contact !== null) this.#host.send({ kind: 'contact-remote', remoteKey: this.#remoteKey });
        break;
      case 'log':
        this.#log(message.line);
        break;
      case 'bucket-request':
        this.#onBucketRequest(message.request);
        break;
      case 'trainer-event':
        this.#runs.get(message.jobId)?.onEvent(message.event);
        break;
      case 'remote-contacted':
        this.#contact?.resolve(message.lines);
        break;
      case 'remote-state':
        this.#reportAbsence(message.absence);
        break;
      case 'remote-max-rank':
        if (this.#remoteMaxRank !== message.maxRank)
          this.#log(`the remote trainer supports adapters up to rank ${message.maxRank}`);
        this.#remoteMaxRank = message.maxRank;
        break;
      case 'remote-refused':
        this.#contact?.reject(new ServerError('server.config_invalid', message.failure.message));
        break;
      case 'snapshot-copied':
        this.#copies.get(message.directoryKey)?.resolve(message.numGradientSteps);
        break;
      case 'snapshot-failed':
        this.#copies.get(message.directoryKey)?.reject(new TrainingRunError({ ...message.failure, retry: 'wait' }));
        break;
      case 'job-done':
        this.#runs.get(message.jobId)?.settled.resolve(message.result);
        break;
      case 'job-failed':
        this.#runs.get(message.jobId)?.settled.reject(new TrainingRunError(message.failure));
        break;
      case 'fatal':
        break; // the exit that follows has the reason
      default:
        message satisfies never;
    }
  }

  #reportAbsence(absence: string | null): void {
    const now = new Date().toISOString();
    if (absence === null && this.#remoteAbsence !== null) this.#log('the remote trainer responds again');
    this.#remoteAbsence = absence === null ? null : `the trainer is unreachable since ${now}: ${absence}`;
    if (this.#remoteAbsence !== null) this.#log(this.#remoteAbsence);
  }

  #onLost(reason: string): void {
    this.#remoteAbsence = null;
    this.#contact?.reject(new TrainingRunError(hostLost(reason)));
    for (const settled of [...this.#copies.values(), ...Array.from(this.#runs.values(), (run) => run.settled)])
      settled.reject(new TrainingRunError(hostLost(reason)));
  }
}

interface JobRun {
  readonly onEvent: (event: TrainerEvent) => void;
  readonly settled: PromiseWithResolvers<TrainingResult>;
}

function hostLost(reason: string): RunFailure {
  return { code: 'trainer.host_lost', message: `the trainer host stopped: ${reason}`, retry: 'resume' };
}

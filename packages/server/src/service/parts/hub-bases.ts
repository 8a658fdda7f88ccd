import type { PullJob, Store } from '@trainyard/store';

import { readHubSettings } from '../../hub/hub-settings.ts';
import { readModelReference } from '../../hub/model-reference.ts';
import { pullModel } from '../../hub/pull-model.ts';
import { PullPace } from '../../hub/pull-pace.ts';
import type { FetchedBytes, PullJobsOptions } from '../../jobs/kinds/pull.ts';
import type { BaseRequest, HubBase, HubBases } from '../../seams/contract/hub-bases.ts';
import { HubError } from '../../seams/faults/hub-error.ts';
import { clientFailure } from '../../seams/faults/http-faults.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { Log } from '../../seams/logging/log.ts';
import { allowsModel, type HubAccess } from '../settings/hub-access.ts';

/** Maximum queued and running pulls of all clients. */
const MAX_LIVE_PULLS = 8;
/** Interval at which states are read while a pull lives: other processes work on some. */
const READ_MS = 2_000;
const IDLE_READ_MS = 30_000;
/** Many events of the feed cause one reading. */
const NOTICE_MS = 250;
/** Time until a base that could not be opened is tried again. */
const RETRY_MS = 60_000;
const RETRY_AFTER = { leastSeconds: 2, mostSeconds: 60, unknownSeconds: 10 };

export interface HubBasesOptions {
  readonly store: Store;
  readonly access: HubAccess;
  /** Ids of the base models that this process serves. */
  readonly served: () => readonly string[];
  /** Serves a model whose files are here. @throws {ServerError} */
  readonly open: (id: string, path: string, signal: AbortSignal) => Promise<void>;
  /** Work is queued, or a running pull was cancelled. */
  readonly worker: { notify(): void; cancelJob(jobId: string): Promise<void> };
  readonly log: Log;
}

interface Opening {
  readonly pace: PullPace;
  readonly ended: Promise<void>;
}

/**
 * Base models of a hub that clients named. A pull job fetches each once; every process that samples and trains then
 * opens it, from its own cache or with a download of its own, also after a restart.
 */
export class ServedHubBases implements HubBases {
  readonly #options: HubBasesOptions;
  /** Newest pull of each base, by id. */
  #pulls: ReadonlyMap<string, PullJob> = new Map();
  /** Downloads and openings in this process. */
  readonly #openings = new Map<string, Opening>();
  readonly #failures = new Map<string, { readonly message: string; readonly atMs: number }>();
  /** Progress that other processes reported, by job. */
  readonly #reported = new Map<string, { after: string | null; bytes: FetchedBytes | null }>();
  readonly #end = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #soon: NodeJS.Timeout | null = null;
  #reading: Promise<void> = Promise.resolve();

  constructor(options: HubBasesOptions) {
    this.#options = options;
  }

  /** Reads the pulls of earlier runs, and opens their bases in the background. */
  async start(): Promise<void> {
    await this.#read();
    this.#schedule();
  }

  async stop(): Promise<void> {
    for (const timer of [this.#timer, this.#soon]) if (timer !== null) clearTimeout(timer);
    this.#end.abort(new DOMException('the service is shutting down', 'AbortError'));
    await Promise.allSettled(Array.from(this.#openings.values(), ({ ended }) => ended));
  }

  /** Reads the states soon: something changed in the database. */
  notify(): void {
    if (this.#end.signal.aborted || this.#soon !== null) return;
    this.#soon = setTimeout(() => {
      this.#soon = null;
      void this.#read().catch(() => undefined);
    }, NOTICE_MS).unref();
  }

  list(): readonly HubBase[] {
    return Array.from(this.#pulls.values(), (pull) => this.#stateOf(pull));
  }

  isComing(id: string): boolean {
    const pull = this.#pulls.get(id);
    if (pull === undefined || this.#isServed(id)) return false;
    return isLive(pull) || (pull.status === 'succeeded' && !this.#failures.has(id));
  }

  absence(id: string): RequestError | null {
    const pull = this.#pulls.get(id);
    if (pull === undefined || this.#isServed(id)) return null;
    const state = this.#stateOf(pull);
    const name = `The base model \`${id}\``;
    switch (state.status) {
      case 'failed':
      case 'cancelled':
        return new RequestError(
          'request.conflict',
          `${name} could not be fetched: ${state.errorMessage ?? state.status}. Register a model on it again to retry`,
          { param: 'model' },
        );
      case 'queued': {
        const why = pull.pausedAt === null ? 'waits for its download' : 'is not fetched because its pull is paused';
        return notYet(`${name} ${why}`, null);
      }
      case 'served':
      case 'opening':
        return notYet(`${name} is being opened`, RETRY_AFTER.leastSeconds);
      case 'running':
        return notYet(`${name} is being fetched${progressText(state)}`, state.remainingSeconds);
      default:
        return state.status satisfies never;
    }
  }

  async request(id: string, { entityId, origin }: BaseRequest): Promise<void> {
    if (this.#isServed(id)) return;
    const reason = this.#refusalOf(id);
    if (reason !== null) throw unknownBase(id, this.#options.served(), reason);
    const before = this.#pulls.get(id);
    if (before !== undefined && this.isComing(id)) return;
    const { store, worker } = this.#options;
    try {
      await store.pulls.enqueue({ entityId, baseModel: id, maxLive: MAX_LIVE_PULLS, origin });
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'store.queue_full') throw error;
      throw new RequestError(
        'request.too_many',
        `${MAX_LIVE_PULLS} base models are queued or being fetched, which is the limit; wait for one to end, or cancel one`,
        { headers: { 'retry-after': String(RETRY_AFTER.mostSeconds) } },
      );
    }
    this.#failures.delete(id);
    await this.#read();
    worker.notify();
    this.#schedule();
  }

  async cancel(id: string): Promise<boolean> {
    const pull = this.#pulls.get(id);
    if (pull === undefined || !isLive(pull)) return false;
    await this.#options.store.jobs.cancel(pull.id, 'cancelled by a client');
    await this.#options.worker.cancelJob(pull.id);
    await this.#read();
    return true;
  }

  /** Fetches a base for its job. @throws {HubError} */
  readonly fetch: PullJobsOptions['fetch'] = async (id, { signal, onProgress }) => {
    await this.#openings.get(id)?.ended.catch(() => undefined);
    if (this.#isServed(id)) return;
    try {
      await this.#opened(id, signal, onProgress);
    } finally {
      // The row of the job changes after this.
      setImmediate(() => this.notify());
    }
  };

  async #opened(id: string, signal: AbortSignal, onProgress?: (bytes: FetchedBytes) => void): Promise<void> {
    const pace = new PullPace();
    const ended = this.#fetchAndOpen(id, signal, (bytes) => {
      pace.see(bytes);
      onProgress?.(bytes);
    });
    this.#openings.set(id, { pace, ended });
    try {
      await ended;
      this.#failures.delete(id);
      this.#options.log(`the base model ${id} is served`);
    } finally {
      this.#openings.delete(id);
    }
  }

  async #fetchAndOpen(id: string, signal: AbortSignal, onProgress: (bytes: FetchedBytes) => void): Promise<void> {
    const reference = readModelReference(id);
    const reason = this.#refusalOf(id);
    if (reference === null || reason !== null)
      throw new HubError('hub.model_unusable', `${id} is not fetched here: ${reason ?? 'it is no model of a hub'}`);
    const settings = readHubSettings(process.env);
    const { path } = await pullModel(reference, { settings, refreshes: false, signal, onProgress });
    try {
      await this.#options.open(id, path, signal);
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      const message = error.message.replaceAll(path, id);
      throw new HubError('hub.model_unusable', `${id} cannot be served: ${message}`, { cause: error });
    }
  }

  /** One reading after the other: the last one must not be an older state. */
  #read(): Promise<void> {
    const reading = this.#reading.then(() => this.#readNow());
    this.#reading = reading.catch(() => undefined);
    return reading;
  }

  /** Reads all states, and opens bases whose pull has ended in this process, another one or an earlier run. */
  async #readNow(): Promise<void> {
    const { store, log } = this.#options;
    const pulls = await store.pulls.listNewest();
    this.#pulls = new Map(pulls.map((pull) => [pull.baseModel, pull]));
    for (const pull of pulls) if (pull.status === 'running') await this.#readProgress(pull);
    for (const { baseModel: id, status } of pulls) {
      if (status !== 'succeeded' || this.#isServed(id) || this.#openings.has(id) || this.#end.signal.aborted) continue;
      const failure = this.#failures.get(id);
      if (failure !== undefined && performance.now() < failure.atMs + RETRY_MS) continue;
      this.#opened(id, this.#end.signal).catch((error: unknown) => {
        if (this.#end.signal.aborted) return;
        log(`the base model ${id} cannot be opened: ${(error as Error).message}`, { level: 'warn' });
        this.#failures.set(id, { message: clientFailure(error).message, atMs: performance.now() });
      });
    }
  }

  async #readProgress({ id, baseModel }: PullJob): Promise<void> {
    if (this.#openings.has(baseModel)) return;
    const known = this.#reported.get(id) ?? { after: null, bytes: null };
    this.#reported.set(id, known);
    const query = { jobId: id, type: 'pull_progress', limit: 100, ...(known.after !== null && { after: known.after }) };
    const last = (await this.#options.store.jobs.listEvents(query))?.items.at(-1);
    if (last === undefined) return;
    known.after = last.id;
    const { done_bytes: doneBytes, total_bytes: totalBytes } = last.data as {
      done_bytes: number;
      total_bytes: number | null;
    };
    known.bytes = { doneBytes, totalBytes };
  }

  #schedule(): void {
    if (this.#end.signal.aborted) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    const isBusy = this.list().some(
      ({ status }) => status === 'queued' || status === 'running' || status === 'opening',
    );
    this.#timer = setTimeout(
      () =>
        void this.#read()
          .catch(() => undefined)
          .finally(() => this.#schedule()),
      isBusy ? READ_MS : IDLE_READ_MS,
    ).unref();
  }

  #stateOf(pull: PullJob): HubBase {
    const { id: jobId, baseModel: id } = pull;
    const opening = this.#openings.get(id);
    const bytes = opening?.pace.progress ?? this.#reported.get(jobId)?.bytes ?? null;
    const failure = pull.status === 'succeeded' ? this.#failures.get(id) : undefined;
    return {
      id,
      status: this.#isServed(id)
        ? 'served'
        : failure !== undefined
          ? 'failed'
          : pull.status === 'succeeded'
            ? 'opening'
            : pull.status,
      jobId,
      doneBytes: bytes?.doneBytes ?? null,
      totalBytes: bytes?.totalBytes ?? null,
      remainingSeconds: opening?.pace.remainingSeconds ?? null,
      errorMessage: failure?.message ?? pull.errorMessage,
    };
  }

  #isServed(id: string): boolean {
    return this.#options.served().includes(id);
  }

  /** Reason why clients may not name the base; null: they may. */
  #refusalOf(id: string): string | null {
    const { access } = this.#options;
    const reference = readModelReference(id);
    if (reference === null || reference.file.kind === 'path')
      return 'it is no model of the hub (ORG/NAME or ORG/NAME:QUANTISATION)';
    if (access.refusal !== null) return access.refusal;
    if (!allowsModel(access, id)) return `\`--hub-allow\` allows only ${access.patterns.join(', ')}`;
    return null;
  }
}

/** A process whose clients may name no base model of a hub. */
export function refusedHub(access: HubAccess, served: () => readonly string[]): HubBases {
  return {
    list: () => [],
    absence: () => null,
    isComing: () => false,
    cancel: async () => false,
    request: async (id) => {
      const isOfHub = readModelReference(id) !== null;
      throw unknownBase(id, served(), isOfHub ? access.refusal : null);
    },
  };
}

function isLive({ status }: PullJob): boolean {
  return status === 'queued' || status === 'running';
}

function unknownBase(id: string, served: readonly string[], reason: string | null): RequestError {
  const why = reason === null ? '' : `. It is not fetched from the hub: ${reason}`;
  return new RequestError(
    'request.unknown_model',
    `The base model \`${id.slice(0, 200)}\` is not served here; served: ${served.join(', ')}${why}`,
    { param: 'base_model' },
  );
}

function notYet(message: string, seconds: number | null): RequestError {
  const { leastSeconds, mostSeconds, unknownSeconds } = RETRY_AFTER;
  const wait = Math.min(mostSeconds, Math.max(leastSeconds, Math.ceil(seconds ?? unknownSeconds)));
  return new RequestError('server.unavailable', message, { param: 'model', headers: { 'retry-after': String(wait) } });
}

function progressText({ doneBytes, totalBytes, remainingSeconds }: HubBase): string {
  if (doneBytes === null) return '';
  const pace = new PullPace();
  pace.see({ doneBytes, totalBytes });
  const left = remainingSeconds === null ? '' : `, about ${Math.ceil(remainingSeconds)} s left`;
  return `: ${pace.text}${left}`;
}

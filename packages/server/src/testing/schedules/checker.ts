import { createHash } from 'node:crypto';

import type { Blobs } from '@trainyard/store';

import { GROUPS_OF_JOB, TRAJECTORIES_OF_JOB } from './datasets.ts';
import type { Oracle } from './oracle.ts';
import { contentOf } from './scripted-hosts.ts';
import type { Submitted, SubmittedJob, SubmittedModel } from './workload.ts';

/** Queries the database directly, without the tested code. */
export type Query = <Row extends Record<string, unknown>>(statement: string) => Promise<Row[]>;

interface JobRow extends Record<string, unknown> {
  id: string;
  model_id: string | null;
  turn: string;
  kind: string;
  status: string;
  num_attempts: number;
  lease_owner: string | null;
  error_message: string | null;
  start_step: number | null;
}

interface EventRow extends Record<string, unknown> {
  id: string;
  job_id: string;
  type: string;
  dedupe_key: string | null;
  data: string;
}

interface CheckpointRow extends Record<string, unknown> {
  model_id: string;
  step: number;
  job_id: string | null;
  digest: string | null;
  artifact_key: string | null;
  deleted_at: number | null;
}

const MINUTE_MS = 60_000;
/** Events this long before a renewal do not affect the next one: a silent network is noticed sooner. */
const BEFORE_RENEWAL_MS = 25_000;
const TERMINAL = ['training_ended', 'training_failed', 'job_ended', 'job_failed'];
/** Maximum number of times that a job may be in flight when a service ends. */
const MAX_ATTEMPTS: Readonly<Record<string, number>> = { rl: 5, sft: 5, export: 20, import: 20 };

export interface CheckerParts {
  readonly query: Query;
  readonly submitted: Submitted;
  readonly oracle: Oracle;
  /** the time of the database, ms since the epoch */
  readonly now: () => number;
  /** True if something happened in that time that may have cost the process a claim. */
  readonly mayLoseClaim: (process: string, from: number, to: number) => boolean;
}

/** Findings at the end, one sentence per violation. */
export class Checker {
  readonly violations: string[] = [];
  /** Jobs that failed because too many services ended during them, which is allowed. */
  numGivenUp = 0;
  readonly #query: Query;
  readonly #now: CheckerParts['now'];
  readonly #mayLoseClaim: CheckerParts['mayLoseClaim'];
  readonly #submitted: Submitted;
  readonly #oracle: Oracle;

  constructor(parts: CheckerParts) {
    this.#now = parts.now;
    this.#mayLoseClaim = parts.mayLoseClaim;
    this.#query = parts.query;
    this.#submitted = parts.submitted;
    this.#oracle = parts.oracle;
  }

  async checkRows(): Promise<void> {
    const jobs = await this.#query<JobRow>('select * from jobs order by position');
    const events = await this.#query<EventRow>(
      'select id, job_id, type, dedupe_key, data from job_events order by job_id, seq',
    );
    const checkpoints = await this.#query<CheckpointRow>('select * from checkpoints order by model_id, step');
    const eventsOf = Map.groupBy(events, ({ job_id: id }) => id);
    for (const job of jobs) this.#checkJob(job, eventsOf.get(job.id) ?? []);
    for (const model of this.#submitted.models) {
      const ofModel = jobs.filter(({ model_id: id }) => id === model.id);
      this.#checkQueue(model, ofModel);
      if (!model.isDeleted)
        await this.#checkSteps(model, ofModel, {
          checkpoints: checkpoints.filter((row) => row.model_id === model.id),
          eventsOf,
        });
    }
    await this.#checkFeed(jobs, events);
    await this.#checkRuns(jobs, eventsOf);
    await this.#checkAdapters();
    await this.#checkTrainedTokens(events);
    await this.#checkLedger();
    // A record without an answered start or end expires by itself: nothing renews it.
    for (const { key } of await this.#query<{ key: string }>(
      `select key from idempotency_records where status is null and expires_at > ${this.#now() + MINUTE_MS}`,
    ))
      this.#found(`the request ${key} is in progress, and no process works on it`);
  }

  /**
   * Every row has its file, with the named content, and every file its row.
   * @param blobs after a start, which removes leftovers of crashes
   */
  async checkBlobs(blobs: Blobs): Promise<void> {
    const directories = await this.#query<{ key: string; digest: string | null }>(
      `select distinct artifact_key as key, digest from checkpoints where deleted_at is null and artifact_key is not null
       union select artifact_key, null from exports where deleted_at is null and artifact_key is not null
       union select artifact_key, digest from adapters where deleted_at is null and artifact_key is not null`,
    );
    const files = await this.#query<{ key: string }>(
      `select j.data_key as key from jobs j join models m on m.id = j.model_id and m.deleted_at is null
         where j.data_key is not null and j.data_removed_at is null
       union select l.blob_key from trajectory_logs l join models m on m.id = l.model_id and m.deleted_at is null
         where l.data_removed_at is null`,
    );
    const named = new Set(directories.map(({ key }) => key));
    const there = new Set(await blobs.listDirectories());
    for (const { key, digest } of directories) {
      const directory = there.has(key) ? await blobs.localDirectory(key) : null;
      if (directory === null) this.#found(`${key} is named by a row, and is not there`);
      else if (digest !== null && contentOf(directory) !== digest) this.#found(`${key} differs from its row`);
    }
    for (const key of there) if (!named.has(key)) this.#found(`${key} is there, and no row names it`);
    const keys = new Set(await blobs.listKeys());
    for (const { key } of files)
      if (!keys.delete(key)) this.#found(`the blob ${key} is named by a row, and is not there`);
    for (const key of keys)
      if (!key.startsWith('places/')) this.#found(`the blob ${key} is there, and no row names it`);
  }

  /** @param served calls by name, with their number, and true if all of them had to reach the database */
  async checkUsage(
    served: ReadonlyMap<string, { readonly numCalls: number; readonly isWhole: boolean }>,
  ): Promise<void> {
    const rows = await this.#query<{ project: string; num: number }>(
      'select project, cast(sum(num_requests) as bigint) as num from usage group by project',
    );
    const counted = new Map(rows.map(({ project, num }) => [project, Number(num)]));
    for (const [name, { numCalls, isWhole }] of served) {
      const num = counted.get(name) ?? 0;
      if (num > numCalls) this.#found(`${num} requests of ${name} are counted, and there were ${numCalls}`);
      if (isWhole && num < numCalls) this.#found(`${num} requests of ${name} are counted, of ${numCalls}`);
    }
  }

  #checkJob(job: JobRow, events: readonly EventRow[]): void {
    const name = `${job.kind} job ${job.id}`;
    if (!['succeeded', 'failed', 'cancelled'].includes(job.status))
      return this.#found(`${name} is ${job.status} in the end`);
    if (job.lease_owner !== null) this.#found(`${name} has ended, and ${job.lease_owner} holds it`);
    const types = events.map(({ type }) => type);
    if (types.filter((type) => TERMINAL.includes(type)).length !== 1 || !TERMINAL.includes(types.at(-1) ?? ''))
      this.#found(`${name} has the events ${types.join(', ')}`);
    const keys = events.flatMap(({ dedupe_key: key }) => (key === null ? [] : [key]));
    if (new Set(keys).size !== keys.length) this.#found(`${name} has an event twice: ${keys.join(', ')}`);
    const steps = keys.filter((key) => key.startsWith('gradient_step:'));
    if (steps.some((key, index) => key !== `gradient_step:${index}`))
      this.#found(`${name} has the steps ${steps.join(', ')}`);
    if (job.status === 'failed' && this.#wasGivenUp(job)) this.numGivenUp += 1;
    else if (job.status === 'failed') this.#found(`${name} failed: ${job.error_message}`);
  }

  #wasGivenUp({ kind, num_attempts: numAttempts, error_message: message }: JobRow): boolean {
    return numAttempts > (MAX_ATTEMPTS[kind] ?? 0) && message?.includes('the service stopped') === true;
  }

  #checkQueue(model: SubmittedModel, rows: readonly JobRow[]): void {
    const [training, exports] = [
      rows.filter(({ kind }) => kind !== 'export'),
      rows.filter(({ kind }) => kind === 'export'),
    ];
    const wanted = model.jobs.map(({ id }) => id);
    if (training.map(({ id }) => id).join() !== wanted.join())
      this.#found(
        `model ${model.id} has ${training.length} jobs, and ${wanted.length} were submitted: ${wanted.join(', ')}`,
      );
    if (exports.map(({ id }) => id).join() !== model.exportIds.join())
      this.#found(`model ${model.id} has ${exports.length} exports, and ${model.exportIds.length} were asked for`);
    for (const { id, status } of rows) {
      const isCancelled = model.jobs.some((job) => job.id === id && job.isCancelled);
      if (isCancelled && status !== 'cancelled') this.#found(`job ${id} was cancelled, and is ${status}`);
      if (status === 'cancelled' && !isCancelled && !model.isDeleted)
        this.#found(`job ${id} is cancelled without a request`);
    }
  }

  /** Weights of each step come from the jobs that succeeded, in order, each once. */
  async #checkSteps(
    model: SubmittedModel,
    rows: readonly JobRow[],
    {
      checkpoints,
      eventsOf,
    }: { checkpoints: readonly CheckpointRow[]; eventsOf: ReadonlyMap<string, readonly EventRow[]> },
  ): Promise<void> {
    const done = rows.filter(({ kind, status }) => kind !== 'export' && status === 'succeeded');
    const steps = checkpoints.map(({ step }) => step).join();
    if (steps !== Array.from({ length: done.length + 1 }, (_, step) => step).join())
      this.#found(`model ${model.id} has the steps ${steps}, and ${done.length} jobs succeeded`);
    const names: string[] = [];
    for (const [index, row] of done.entries()) {
      const job = model.jobs.find(({ id }) => id === row.id);
      if (job === undefined) continue;
      names.push(jobName(job));
      const { digest, numGradientSteps, heldOut } = await this.#oracle.train(names);
      const checkpoint = checkpoints.find(({ step }) => step === index + 1);
      if (checkpoint?.job_id !== row.id) this.#found(`step ${index + 1} of model ${model.id} is not of job ${row.id}`);
      const kept = checkpoint?.deleted_at == null ? digest : null;
      if (checkpoint?.digest !== kept)
        this.#found(`step ${index + 1} of model ${model.id} has other weights than undisturbed (${names.join(', ')})`);
      const numReported = (eventsOf.get(row.id) ?? []).filter(({ type }) => type === 'gradient_step').length;
      if (numReported !== numGradientSteps)
        this.#found(`job ${row.id} reported ${numReported} gradient steps of ${numGradientSteps}`);
      const measured = JSON.stringify((eventsOf.get(row.id) ?? []).flatMap(heldOutIn));
      if (measured !== heldOut)
        this.#found(`job ${row.id} has the held-out losses ${measured}, and undisturbed ${heldOut}`);
    }
    const gone = checkpoints.filter(({ deleted_at: at }) => at !== null).map(({ step }) => step);
    if (gone.join() !== [...model.deletedSteps].toSorted((first, second) => first - second).join())
      this.#found(
        `the steps ${gone.join()} of model ${model.id} are deleted, and ${[...model.deletedSteps].join()} were to be`,
      );
  }

  async #checkFeed(jobs: readonly JobRow[], events: readonly EventRow[]): Promise<void> {
    const rows = await this.#query<{
      type: string;
      job_id: string | null;
      model_id: string | null;
      event_id: string | null;
    }>('select type, job_id, model_id, event_id from feed');
    const rowIds = rows.flatMap(({ event_id: id }) => (id === null ? [] : [id]));
    if (rowIds.length !== events.length || new Set(rowIds).size !== rowIds.length)
      this.#found(`the feed has ${rowIds.length} events of jobs, and there are ${events.length}`);
    const count = (type: string, id: string) =>
      rows.filter((row) => row.type === type && (row.job_id === id || (row.job_id === null && row.model_id === id)))
        .length;
    for (const { id, kind, status } of jobs) {
      if (count('job_queued', id) !== 1)
        this.#found(`the feed has ${count('job_queued', id)} times that job ${id} was queued`);
      const isMade = status === 'succeeded' && (kind === 'rl' || kind === 'sft');
      if (count('checkpoint_created', id) !== Number(isMade))
        this.#found(
          `the feed has ${count('checkpoint_created', id)} events checkpoint_created of job ${id}, which is ${status}`,
        );
    }
    for (const { id, isDeleted } of this.#submitted.models)
      if (count('model_created', id) !== 1 || count('model_deleted', id) !== Number(isDeleted))
        this.#found(`the feed has an event of model ${id} that did not happen`);
  }

  /** Points, trajectories and logs: once per step, submission and log. */
  async #checkRuns(jobs: readonly JobRow[], eventsOf: ReadonlyMap<string, readonly EventRow[]>): Promise<void> {
    const sets = await this.#query<{ model_id: string; num: number; num_trajectories: number }>(
      `select s.model_id, count(distinct s.position) as num, count(t.position) as num_trajectories
       from trajectory_sets s left join trajectories t on t.set_position = s.position group by s.model_id`,
    );
    const logs = await this.#query<{ model_id: string; num: number }>(
      'select model_id, count(*) as num from trajectory_logs group by model_id',
    );
    const points = await this.#query<{ model_id: string; num: number }>(
      `select s.model_id, count(distinct p.gradient_step) as num from metric_points p join metric_series s on s.id = p.series_id
       where s.name not like 'held_out/%' group by s.model_id`,
    );
    const numOf = (rows: readonly { model_id: string; num: number }[], id: string) =>
      Number(rows.find((row) => row.model_id === id)?.num ?? 0);
    for (const model of this.#submitted.models.filter(({ isDeleted }) => !isDeleted)) {
      const numSets = model.jobs.filter(({ kind }) => kind === 'rl').length + model.numLogs;
      const numTrajectories = Number(sets.find((row) => row.model_id === model.id)?.num_trajectories ?? 0);
      const numSupervised = model.jobs.length + model.numLogs - numSets;
      const numFound = numOf(sets, model.id);
      if (numFound !== numSets && numFound !== numSets + numSupervised)
        this.#found(`model ${model.id} has ${numFound} sets of trajectories, and should have ${numSets}`);
      if (numTrajectories !== numSets * TRAJECTORIES_OF_JOB)
        this.#found(
          `model ${model.id} has ${numTrajectories} trajectories, and ${numSets * TRAJECTORIES_OF_JOB} were sent in groups of ${GROUPS_OF_JOB}`,
        );
      if (numOf(logs, model.id) !== model.numLogs)
        this.#found(`model ${model.id} has ${numOf(logs, model.id)} logs of ${model.numLogs}`);
      const numSteps = jobs
        .filter((job) => job.model_id === model.id)
        .flatMap(({ id }) => eventsOf.get(id) ?? [])
        .filter(({ type }) => type === 'gradient_step').length;
      if (numOf(points, model.id) !== numSteps)
        this.#found(
          `the run of model ${model.id} has ${numOf(points, model.id)} points for ${numSteps} gradient steps`,
        );
    }
  }

  /**
   * No process writes to another's job, an undisturbed one loses none, and a command's effect is kept with
   * its answer.
   */
  async #checkLedger(): Promise<void> {
    for (const { what } of await this.#query<{ what: string }>('select what from ledger_intrusions')) this.#found(what);
    const unanswered = await this.#query<{ what: string }>(
      'select what from ledger_effects where transaction not in (select transaction from ledger_answers)',
    );
    for (const { what } of unanswered) this.#found(`${what} is in a transaction that keeps no answer`);
    const takeovers = await this.#query<{ job_id: string; process: string; renewed_at: number; at: number }>(
      'select * from ledger_takeovers',
    );
    for (const { job_id: id, process, renewed_at: renewedAt, at } of takeovers)
      if (!this.#mayLoseClaim(process, renewedAt - BEFORE_RENEWAL_MS, at))
        this.#found(`${process} lost job ${id} to another, and nothing had happened to it`);
  }

  async #checkTrainedTokens(events: readonly EventRow[]): Promise<void> {
    const rows = await this.#query<{ num_requests: number | null; num_tokens: number | null }>(
      `select cast(sum(num_requests) as bigint) as num_requests, cast(sum(completion_tokens) as bigint) as num_tokens
       from usage where kind = 'training'`,
    );
    const steps = events.filter(({ type }) => type === 'gradient_step');
    const numJobs = steps.filter(({ dedupe_key: key }) => key === 'gradient_step:0').length;
    const numTokens = steps
      .map(({ data }) => (JSON.parse(data) as { num_trainable_tokens: number }).num_trainable_tokens)
      .reduce((sum, num) => sum + num, 0);
    const [charged] = rows;
    if ((charged?.num_requests ?? 0) !== numJobs || (charged?.num_tokens ?? 0) !== numTokens)
      this.#found(
        `${charged?.num_tokens} tokens of ${charged?.num_requests} jobs are charged for training, and ${numTokens} of ${numJobs} were trained`,
      );
  }

  async #checkAdapters(): Promise<void> {
    const rows = await this.#query<{ id: string; digest: string | null; deleted_at: number | null }>(
      'select id, digest, deleted_at from adapters',
    );
    if (rows.length !== this.#submitted.adapters.length)
      this.#found(`there are ${rows.length} adapters, and ${this.#submitted.adapters.length} uploads were begun`);
    for (const { id, weights, isDeleted } of this.#submitted.adapters) {
      const row = rows.find((found) => found.id === id);
      const digest = createHash('sha256').update(weights).digest('hex');
      if (row?.digest !== digest) this.#found(`adapter ${id} was committed, and is not there as it was sent`);
      if ((row?.deleted_at != null) !== isDeleted) this.#found(`adapter ${id} is deleted or not, other than was asked`);
    }
  }

  #found(violation: string): void {
    this.violations.push(violation);
  }
}

/** Name of such a job in the oracle. */
export function jobName({ kind, dataset }: Pick<SubmittedJob, 'kind' | 'dataset'>): string {
  return `${kind}-${dataset}`;
}

/** Gradient step and loss of a `held_out` event. */
function heldOutIn({ type, data }: EventRow): [number, number][] {
  if (type !== 'held_out') return [];
  const { gradient_step: gradientStep, loss } = JSON.parse(data) as { gradient_step: number; loss: number };
  return [[gradientStep, loss]];
}

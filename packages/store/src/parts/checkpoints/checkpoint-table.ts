import { randomUUID } from 'node:crypto';
import type { Page } from '../../contract/page.ts';
import type { Checkpoint, CheckpointQuery, NamedStep } from './checkpoints.ts';
import type { Metrics } from '../runs/runs.ts';
import type { Statements } from '../../contract/sql.ts';
import { metricsText, parseMetrics } from '../json-column.ts';
import { listPage } from '../list.ts';
import { partsOf, rowsOf, rowsOfIds } from '../rows-of.ts';

type CheckpointRow = {
  id: string;
  model_id: string;
  step: number;
  artifact_key: string | null;
  digest: string | null;
  metrics: string;
  created_at: number;
};

/**
 * References to directories: checkpoints, sources and snapshots of live jobs, exports, and imported adapters.
 */
export const DIRECTORY_REFERENCES = `
  select artifact_key as key from checkpoints where deleted_at is null
  union all select start_artifact_key from jobs where status in ('queued', 'running')
  union all select reference_artifact_key from jobs where status in ('queued', 'running')
  union all select snapshot_key from jobs where status in ('queued', 'running')
  union all select artifact_key from exports
  union all select artifact_key from adapters`;
const DIGESTS = `
  select digest as key from checkpoints where deleted_at is null
  union all select digest from adapters where deleted_at is null`;

export interface NewCheckpoint {
  modelId: string;
  step: number;
  jobId: string | null;
  directoryKey: string | null;
  digest: string | null;
  metrics: Metrics;
}

/** A statement stays prepared for each number of keys. */
const KEYS_AT_A_TIME = 100;

/** A checkpoint before its deletion. */
export type DeletedCheckpoint = Pick<Checkpoint, 'step' | 'directoryKey' | 'digest'>;

/** Checkpoints of models. A deleted one keeps its row (id and step only), so that cursors and step numbers stay taken. */
export class CheckpointTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async insert(input: NewCheckpoint, now: number): Promise<Checkpoint> {
    const id = randomUUID();
    await this.#sql.run(
      'insert into checkpoints (id, model_id, step, job_id, artifact_key, digest, metrics, created_at) values (?, ?, ?, ?, ?, ?, ?, ?)',
      id,
      input.modelId,
      input.step,
      input.jobId,
      input.directoryKey,
      input.digest,
      metricsText(input.metrics),
      now,
    );
    const { modelId, step, directoryKey, digest, metrics } = input;
    return { id, modelId, step, directoryKey, digest, metrics, createdAt: now };
  }

  async get(modelId: string, step: number): Promise<Checkpoint | null> {
    const row = await this.#sql.get<CheckpointRow>(
      'select * from checkpoints where model_id = ? and step = ? and deleted_at is null',
      modelId,
      step,
    );
    return row === undefined ? null : toCheckpoint(row);
  }

  /** True if the model has, or had, that step. */
  async hasStep(modelId: string, step: number): Promise<boolean> {
    const row = await this.#sql.get('select 1 from checkpoints where model_id = ? and step = ?', modelId, step);
    return row !== undefined;
  }

  async latest(modelId: string): Promise<Checkpoint | null> {
    const row = await this.#sql.get<CheckpointRow>(
      'select * from checkpoints where model_id = ? and deleted_at is null order by step desc limit 1',
      modelId,
    );
    return row === undefined ? null : toCheckpoint(row);
  }

  /** Directories of the newest kept checkpoints, by digest of their weights. */
  async newestVersions(modelId: string, limit: number): Promise<Map<string, string>> {
    const rows = await this.#sql.all<{ digest: string; artifact_key: string }>(
      `select digest, artifact_key from checkpoints
       where model_id = ? and deleted_at is null and digest is not null and artifact_key is not null
       order by step desc limit ?`,
      modelId,
      limit,
    );
    // For equal weights the directory of the newest step, which stays longest.
    return new Map(rows.toReversed().map(({ digest, artifact_key: key }) => [digest, key]));
  }

  /** Step of the last supervised job up to `step`, deleted ones included; 0 without one. */
  async lastSupervised(modelId: string, step: number): Promise<number> {
    const row = await this.#sql.get<{ step: number | null }>(
      `select max(checkpoints.step) as step from checkpoints join jobs on jobs.id = checkpoints.job_id
       where checkpoints.model_id = ? and checkpoints.step <= ? and jobs.kind = 'sft'`,
      modelId,
      step,
    );
    return Number(row?.step ?? 0);
  }

  async list(query: CheckpointQuery): Promise<Page<Checkpoint>> {
    return await listPage<CheckpointRow, Checkpoint>(
      this.#sql,
      {
        name: 'checkpoints',
        columns: '*',
        from: 'checkpoints',
        id: 'id',
        position: 'step',
        filters: [
          ['model_id = ?', query.modelId],
          ['step >= ?', query.minStep],
          ['step <= ?', query.maxStep],
        ],
        visible: { condition: 'deleted_at is null' },
      },
      query,
      toCheckpoint,
    );
  }

  /** Number of kept checkpoints and the latest of them, by model; no entry for a model without any. */
  async latestOf(modelIds: readonly string[]): Promise<Map<string, { latest: Checkpoint; numCheckpoints: number }>> {
    const rows = await rowsOfIds<CheckpointRow & { num_kept: number }>(
      this.#sql,
      modelIds,
      (marks) => `select c.*, kept.num_kept from checkpoints c join (
         select model_id, max(step) as step, count(*) as num_kept from checkpoints
         where model_id in (${marks}) and deleted_at is null group by model_id) kept
       on kept.model_id = c.model_id and kept.step = c.step`,
    );
    return new Map(
      rows.map(({ num_kept: numCheckpoints, ...row }) => [row.model_id, { latest: toCheckpoint(row), numCheckpoints }]),
    );
  }

  async listSteps(modelId: string): Promise<number[]> {
    return (
      await this.#sql.all<{ step: number }>(
        'select step from checkpoints where model_id = ? and deleted_at is null order by step',
        modelId,
      )
    ).map((row) => row.step);
  }

  async setMetrics(checkpointId: string, metrics: Metrics): Promise<void> {
    await this.#sql.run('update checkpoints set metrics = ? where id = ?', metricsText(metrics), checkpointId);
  }

  /** @returns the deleted checkpoints before their deletion, in order of steps */
  async delete(modelId: string, steps: ReadonlySet<number>, now: number): Promise<DeletedCheckpoint[]> {
    const live = await this.#sql.all<Pick<CheckpointRow, 'id' | 'step' | 'artifact_key' | 'digest'>>(
      'select id, step, artifact_key, digest from checkpoints where model_id = ? and deleted_at is null order by step',
      modelId,
    );
    const deleted = live.filter(({ step }) => steps.has(step));
    for (const some of partsOf(deleted, KEYS_AT_A_TIME))
      await this.#sql.run(
        `update checkpoints set artifact_key = null, digest = null, metrics = '{}', deleted_at = ? where id in (${rowsOf(some.length, '?')})`,
        now,
        ...some.map(({ id }) => id),
      );
    return deleted.map(({ step, artifact_key: directoryKey, digest }) => ({ step, directoryKey, digest }));
  }

  /**
   * Returns those of these keys that are no longer referenced by a checkpoint, live job (start, reference or
   * snapshot), export or adapter; without duplicates.
   */
  async unreferenced(directoryKeys: Iterable<string | null>): Promise<string[]> {
    return await this.#without(DIRECTORY_REFERENCES, directoryKeys);
  }

  /** Returns those of these digests that no checkpoint and no imported adapter has; without duplicates. */
  async unusedDigests(digests: Iterable<string | null>): Promise<string[]> {
    return await this.#without(DIGESTS, digests);
  }

  async stepsOf(digests: readonly string[]): Promise<NamedStep[]> {
    const steps: NamedStep[] = [];
    for (const some of partsOf([...new Set(digests)], KEYS_AT_A_TIME))
      steps.push(
        ...(await this.#sql.all<Pick<NamedStep, keyof NamedStep>>(
          `select c.digest, e.name as entity, m.project, m.name, c.step from checkpoints c
           join models m on m.id = c.model_id join entities e on e.id = m.entity_id
           where c.deleted_at is null and m.deleted_at is null and c.digest in (${rowsOf(some.length, '?')})
           order by c.step desc, m.name`,
          ...some,
        )),
      );
    return steps;
  }

  async #without(held: string, keys: Iterable<string | null>): Promise<string[]> {
    const wanted = [...new Set(keys)].filter((key) => key !== null);
    const found = new Set<string>();
    for (const some of partsOf(wanted, KEYS_AT_A_TIME)) {
      const rows = await this.#sql.all<{ key: string }>(
        `select distinct key from (${held}) held where key in (${rowsOf(some.length, '?')})`,
        ...some,
      );
      for (const { key } of rows) found.add(key);
    }
    return wanted.filter((key) => !found.has(key));
  }

  async listDirectoryKeys(): Promise<string[]> {
    const rows = await this.#sql.all<{ key: string }>(
      `select distinct key from (${DIRECTORY_REFERENCES}) held where key is not null`,
    );
    return rows.map((row) => row.key);
  }

  /** True if anything refers to that directory. */
  async refersTo(directoryKey: string): Promise<boolean> {
    const row = await this.#sql.get(`select 1 from (${DIRECTORY_REFERENCES}) held where key = ? limit 1`, directoryKey);
    return row !== undefined;
  }
}

function toCheckpoint(row: CheckpointRow): Checkpoint {
  return {
    id: row.id,
    modelId: row.model_id,
    step: row.step,
    directoryKey: row.artifact_key,
    digest: row.digest,
    metrics: parseMetrics(row.metrics),
    createdAt: row.created_at,
  };
}

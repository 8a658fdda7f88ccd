import { randomUUID } from 'node:crypto';
import type { OrderedPageQuery, Page } from '../page.ts';
import type { Checkpoint, Metrics } from '../records.ts';
import type { Database } from './database.ts';
import { metricsText, parseMetrics } from './json-column.ts';
import { listPage } from './list.ts';

type CheckpointRow = {
  id: string;
  model_id: string;
  step: number;
  artifact_key: string | null;
  digest: string | null;
  metrics: string;
  created_at: number;
};

/** Directories of exports, of what live exports read, and of imported adapters. */
const EXCHANGED = `
  select artifact_key as key from exports
  union all select source_artifact_key from exports where status in ('queued', 'running') and deleted_at is null
  union all select artifact_key from adapters`;

export interface NewCheckpoint {
  modelId: string;
  step: number;
  jobId: string | null;
  artifactKey: string | null;
  digest: string | null;
  metrics: Metrics;
}

/** Checkpoints of models. A deleted one keeps its row (id and step only), so that cursors and step numbers stay taken. */
export class CheckpointTable {
  readonly #database: Database;
  constructor(database: Database) {
    this.#database = database;
  }

  insert(input: NewCheckpoint, now: number): Checkpoint {
    const id = randomUUID();
    this.#database.run(
      'insert into checkpoints (id, model_id, step, job_id, artifact_key, digest, metrics, created_at) values (?, ?, ?, ?, ?, ?, ?, ?)',
      id,
      input.modelId,
      input.step,
      input.jobId,
      input.artifactKey,
      input.digest,
      metricsText(input.metrics),
      now,
    );
    const { modelId, step, artifactKey, digest, metrics } = input;
    return { id, modelId, step, artifactKey, digest, metrics, createdAt: now };
  }

  get(modelId: string, step: number): Checkpoint | null {
    const row = this.#database.get<CheckpointRow>(
      'select * from checkpoints where model_id = ? and step = ? and deleted_at is null',
      modelId,
      step,
    );
    return row === undefined ? null : toCheckpoint(row);
  }

  latest(modelId: string): Checkpoint | null {
    const row = this.#database.get<CheckpointRow>(
      'select * from checkpoints where model_id = ? and deleted_at is null order by step desc limit 1',
      modelId,
    );
    return row === undefined ? null : toCheckpoint(row);
  }

  list(query: OrderedPageQuery & { modelId: string }): Page<Checkpoint> {
    return listPage<CheckpointRow, Checkpoint>(
      this.#database,
      {
        name: 'checkpoints',
        columns: '*',
        from: 'checkpoints',
        id: 'id',
        position: 'step',
        filters: [['model_id = ?', query.modelId]],
        visible: { condition: 'deleted_at is null' },
      },
      query,
      toCheckpoint,
    );
  }

  listSteps(modelId: string): number[] {
    return this.#database
      .all<{ step: number }>(
        'select step from checkpoints where model_id = ? and deleted_at is null order by step',
        modelId,
      )
      .map((row) => row.step);
  }

  setMetrics(checkpointId: string, metrics: Metrics): void {
    this.#database.run('update checkpoints set metrics = ? where id = ?', metricsText(metrics), checkpointId);
  }

  /** @returns what was deleted as it was before */
  delete(modelId: string, step: number, now: number): Checkpoint | null {
    const checkpoint = this.get(modelId, step);
    if (checkpoint === null) return null;
    this.#database.run(
      `update checkpoints set artifact_key = null, digest = null, metrics = '{}', deleted_at = ? where id = ?`,
      now,
      checkpoint.id,
    );
    return checkpoint;
  }

  /** Of these keys, the ones that nothing refers to any more: no checkpoint, live job (start or reference), export or adapter; without duplicates. */
  unreferenced(artifactKeys: Iterable<string | null>): string[] {
    return [...new Set(artifactKeys)].filter((key): key is string => key !== null && !this.#isReferenced(key));
  }

  listArtifactKeys(): string[] {
    return this.#database
      .all<{ key: string }>(
        `select artifact_key as key from checkpoints where artifact_key is not null
         union select start_artifact_key from jobs where status in ('queued', 'running') and start_artifact_key is not null
         union select reference_artifact_key from jobs where status in ('queued', 'running') and reference_artifact_key is not null`,
      )
      .concat(this.#database.all<{ key: string }>(`select distinct key from (${EXCHANGED}) where key is not null`))
      .map((row) => row.key);
  }

  #isReferenced(artifactKey: string): boolean {
    const row = this.#database.get(
      `select 1 from checkpoints where artifact_key = ?
       union all select 1 from jobs where status in ('queued', 'running') and ? in (start_artifact_key, reference_artifact_key) limit 1`,
      artifactKey,
      artifactKey,
    );
    return (
      row !== undefined ||
      this.#database.get(`select 1 from (${EXCHANGED}) where key = ? limit 1`, artifactKey) !== undefined
    );
  }
}

function toCheckpoint(row: CheckpointRow): Checkpoint {
  return {
    id: row.id,
    modelId: row.model_id,
    step: row.step,
    artifactKey: row.artifact_key,
    digest: row.digest,
    metrics: parseMetrics(row.metrics),
    createdAt: row.created_at,
  };
}

import { randomUUID } from 'node:crypto';
import type { OrderedPageQuery, Page } from '../contract/page.ts';
import type { Checkpoint, ExportedFile, ExportStatus, ModelExport } from '../contract/records.ts';
import type { ExportOutcome, NewExport } from '../contract/store.ts';
import type { Statements } from '../contract/sql.ts';
import { parseObject } from './json-column.ts';
import { listPage } from './list.ts';

type ExportRow = {
  id: string;
  model_id: string;
  entity_id: string;
  step: number;
  format: string;
  dtype: string;
  status: ExportStatus;
  source_artifact_key: string | null;
  source_digest: string | null;
  num_attempts: number;
  artifact_key: string | null;
  files: string;
  parity: string | null;
  error_message: string | null;
  created_at: number;
  started_at: number | null;
  finished_at: number | null;
};

const COLUMNS = 'x.*, m.entity_id';
const FROM = 'exports x join models m on m.id = x.model_id';

/** Exports of checkpoints. Deleted rows stay as tombstones and are shown nowhere. */
export class ExportTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async insert(input: NewExport, source: Checkpoint, now: number): Promise<ModelExport> {
    const id = input.id ?? randomUUID();
    await this.#sql.run(
      `insert into exports (id, model_id, step, format, dtype, status, source_artifact_key, source_digest, files, created_at)
       values (?, ?, ?, ?, ?, 'queued', ?, ?, '[]', ?)`,
      id,
      source.modelId,
      source.step,
      input.format,
      input.dtype,
      source.artifactKey,
      source.digest,
      now,
    );
    return await this.#existing(id);
  }

  async get(exportId: string): Promise<ModelExport | null> {
    const row = await this.#sql.get<ExportRow>(
      `select ${COLUMNS} from ${FROM} where x.id = ? and x.deleted_at is null`,
      exportId,
    );
    return row === undefined ? null : toExport(row);
  }

  async list(query: OrderedPageQuery & { modelId: string }): Promise<Page<ModelExport>> {
    return await listPage<ExportRow, ModelExport>(
      this.#sql,
      {
        name: 'exports',
        columns: COLUMNS,
        from: FROM,
        id: 'x.id',
        position: 'x.position',
        filters: [['x.model_id = ?', query.modelId]],
        visible: { condition: 'x.deleted_at is null' },
      },
      query,
      toExport,
    );
  }

  async countLive(modelId: string): Promise<number> {
    const row = await this.#sql.get<{ count: number }>(
      `select count(*) as count from exports where model_id = ? and status in ('queued', 'running') and deleted_at is null`,
      modelId,
    );
    return row?.count ?? 0;
  }

  /** Takes the first that is queued, or that nobody has renewed in time. */
  async claim(workerId: string, expiresAt: number, now: number): Promise<ModelExport | null> {
    const next = await this.#sql.get<{ id: string; created_at: number }>(
      `select id, created_at from exports
       where (status = 'queued' or (status = 'running' and coalesce(lease_expires_at, 0) <= ?)) and deleted_at is null
       order by position limit 1`,
      now,
    );
    if (next === undefined) return null;
    await this.#sql.run(
      `update exports set status = 'running', lease_owner = ?, lease_expires_at = ?, num_attempts = num_attempts + 1,
         started_at = coalesce(started_at, ?)
       where id = ?`,
      workerId,
      expiresAt,
      Math.max(now, next.created_at),
      next.id,
    );
    return await this.#existing(next.id);
  }

  /** @returns whether that claim still holds */
  async renew(exportId: string, numAttempts: number, expiresAt: number): Promise<boolean> {
    const numRenewed = await this.#sql.run(
      `update exports set lease_expires_at = ?
       where id = ? and status = 'running' and num_attempts = ? and deleted_at is null`,
      expiresAt,
      exportId,
      numAttempts,
    );
    return numRenewed === 1;
  }

  async release(exportId: string, numAttempts: number): Promise<void> {
    await this.#sql.run(
      `update exports set status = 'queued', lease_owner = null, lease_expires_at = null, num_attempts = num_attempts - 1
       where id = ? and status = 'running' and num_attempts = ? and deleted_at is null`,
      exportId,
      numAttempts,
    );
  }

  /** @returns null when that claim does not hold any more */
  async finish(
    exportId: string,
    numAttempts: number,
    outcome: ExportOutcome,
    now: number,
  ): Promise<ModelExport | null> {
    const held = await this.get(exportId);
    if (held === null || held.status !== 'running' || held.numAttempts !== numAttempts) return null;
    const isDone = outcome.kind === 'succeeded';
    await this.#sql.run(
      'update exports set status = ?, artifact_key = ?, files = ?, parity = ?, error_message = ?, finished_at = ? where id = ?',
      outcome.kind,
      isDone ? outcome.artifactKey : null,
      JSON.stringify(isDone ? outcome.files : []),
      isDone ? JSON.stringify(outcome.parity) : null,
      isDone ? null : outcome.errorMessage,
      Math.max(now, held.startedAt ?? held.createdAt),
      exportId,
    );
    return await this.#existing(exportId);
  }

  async markDeleted(exportId: string, now: number): Promise<void> {
    await this.#sql.run('update exports set deleted_at = ?, artifact_key = null where id = ?', now, exportId);
  }

  /** @returns what was deleted, as it was before */
  async deleteOfModel(modelId: string, now: number): Promise<ModelExport[]> {
    const exports = (
      await this.#sql.all<ExportRow>(
        `select ${COLUMNS} from ${FROM} where x.model_id = ? and x.deleted_at is null`,
        modelId,
      )
    ).map(toExport);
    for (const { id } of exports) await this.markDeleted(id, now);
    return exports;
  }

  /** Whatever runs in that worker's hands, or from before claims bore a name. */
  async requeueHeldBy(workerId: string): Promise<number> {
    return await this.#sql.run(
      `update exports set status = 'queued', lease_owner = null, lease_expires_at = null
       where status = 'running' and (lease_owner is null or lease_owner = ?)`,
      workerId,
    );
  }

  /** Removes the rows of models deleted before `before`. */
  async purge(before: number): Promise<number> {
    return await this.#sql.run(
      'delete from exports where model_id in (select id from models where deleted_at < ?)',
      before,
    );
  }

  async #existing(exportId: string): Promise<ModelExport> {
    const found = await this.get(exportId);
    if (found === null) throw new Error(`export ${exportId} vanished`);
    return found;
  }
}

function toExport(row: ExportRow): ModelExport {
  return {
    id: row.id,
    modelId: row.model_id,
    entityId: row.entity_id,
    step: row.step,
    format: row.format,
    dtype: row.dtype,
    status: row.status,
    sourceArtifactKey: row.source_artifact_key,
    sourceDigest: row.source_digest,
    numAttempts: row.num_attempts,
    artifactKey: row.artifact_key,
    files: JSON.parse(row.files) as ExportedFile[],
    parity: row.parity === null ? null : parseObject(row.parity),
    errorMessage: row.error_message,
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}

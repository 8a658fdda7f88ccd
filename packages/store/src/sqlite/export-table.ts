import { randomUUID } from 'node:crypto';
import type { OrderedPageQuery, Page } from '../page.ts';
import type { Checkpoint, ExportedFile, ExportStatus, ModelExport } from '../records.ts';
import type { ExportOutcome, NewExport } from '../store.ts';
import type { Database } from './database.ts';
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
  readonly #database: Database;
  constructor(database: Database) {
    this.#database = database;
  }

  insert(input: NewExport, source: Checkpoint, now: number): ModelExport {
    const id = input.id ?? randomUUID();
    this.#database.run(
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
    return this.#existing(id);
  }

  get(exportId: string): ModelExport | null {
    const row = this.#database.get<ExportRow>(
      `select ${COLUMNS} from ${FROM} where x.id = ? and x.deleted_at is null`,
      exportId,
    );
    return row === undefined ? null : toExport(row);
  }

  list(query: OrderedPageQuery & { modelId: string }): Page<ModelExport> {
    return listPage<ExportRow, ModelExport>(
      this.#database,
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

  countLive(modelId: string): number {
    const row = this.#database.get<{ count: number }>(
      `select count(*) as count from exports where model_id = ? and status in ('queued', 'running') and deleted_at is null`,
      modelId,
    );
    return row?.count ?? 0;
  }

  claim(now: number): ModelExport | null {
    const next = this.#database.get<{ id: string }>(
      `select id from exports where status = 'queued' and deleted_at is null order by position limit 1`,
    );
    if (next === undefined) return null;
    this.#database.run(
      `update exports set status = 'running', num_attempts = num_attempts + 1, started_at = coalesce(started_at, max(?, created_at)) where id = ?`,
      now,
      next.id,
    );
    return this.#existing(next.id);
  }

  release(exportId: string, numAttempts: number): void {
    this.#database.run(
      `update exports set status = 'queued', num_attempts = num_attempts - 1
       where id = ? and status = 'running' and num_attempts = ? and deleted_at is null`,
      exportId,
      numAttempts,
    );
  }

  /** @returns null when that claim does not hold any more */
  finish(exportId: string, numAttempts: number, outcome: ExportOutcome, now: number): ModelExport | null {
    const held = this.get(exportId);
    if (held === null || held.status !== 'running' || held.numAttempts !== numAttempts) return null;
    const isDone = outcome.kind === 'succeeded';
    this.#database.run(
      'update exports set status = ?, artifact_key = ?, files = ?, parity = ?, error_message = ?, finished_at = max(?, coalesce(started_at, created_at)) where id = ?',
      outcome.kind,
      isDone ? outcome.artifactKey : null,
      JSON.stringify(isDone ? outcome.files : []),
      isDone ? JSON.stringify(outcome.parity) : null,
      isDone ? null : outcome.errorMessage,
      now,
      exportId,
    );
    return this.#existing(exportId);
  }

  markDeleted(exportId: string, now: number): void {
    this.#database.run('update exports set deleted_at = ?, artifact_key = null where id = ?', now, exportId);
  }

  /** @returns what was deleted, as it was before */
  deleteOfModel(modelId: string, now: number): ModelExport[] {
    const exports = this.#database
      .all<ExportRow>(`select ${COLUMNS} from ${FROM} where x.model_id = ? and x.deleted_at is null`, modelId)
      .map(toExport);
    for (const { id } of exports) this.markDeleted(id, now);
    return exports;
  }

  requeueAllRunning(): number {
    return this.#database.run(`update exports set status = 'queued' where status = 'running'`);
  }

  /** Removes the rows of models deleted before `before`. */
  purge(before: number): number {
    return this.#database.run(
      'delete from exports where model_id in (select id from models where deleted_at < ?)',
      before,
    );
  }

  #existing(exportId: string): ModelExport {
    const found = this.get(exportId);
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

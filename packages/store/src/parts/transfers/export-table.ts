import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { ExportedFile, ExportOutcome, ModelExport } from './exports.ts';
import type { JobStatus } from '../jobs/jobs.ts';
import type { Statements } from '../../contract/sql.ts';
import { parseObject } from '../json-column.ts';
import { listPage } from '../list.ts';

type ExportRow = {
  id: string;
  model_id: string;
  entity_id: string;
  step: number;
  format: string;
  dtype: string;
  status: JobStatus;
  source_artifact_key: string | null;
  source_digest: string | null;
  artifact_key: string | null;
  files: string;
  parity: string | null;
  error_message: string | null;
  created_at: number;
  started_at: number | null;
  finished_at: number | null;
};

const COLUMNS = `x.*, j.entity_id, j.status, j.start_step as step, j.start_artifact_key as source_artifact_key, j.start_digest as source_digest,
  j.error_message, j.created_at, j.started_at, j.finished_at`;
const FROM = 'exports x join jobs j on j.id = x.id';

/**
 * Exports: the checkpoint, the format, and the result; the job of the same id has the progress. Deleted rows
 * stay as hidden tombstones.
 */
export class ExportTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** @param input its id is that of a job */
  async insert(input: { id: string; modelId: string; format: string; dtype: string }): Promise<ModelExport> {
    const { id, modelId, format, dtype } = input;
    await this.#sql.run(
      `insert into exports (id, model_id, format, dtype, files) values (?, ?, ?, ?, '[]')`,
      id,
      modelId,
      format,
      dtype,
    );
    return await this.existing(id);
  }

  async get(exportId: string): Promise<ModelExport | null> {
    const row = await this.#sql.get<ExportRow>(
      `select ${COLUMNS} from ${FROM} where x.id = ? and x.deleted_at is null`,
      exportId,
    );
    return row === undefined ? null : toExport(row);
  }

  async existing(exportId: string): Promise<ModelExport> {
    const found = await this.get(exportId);
    if (found === null) throw new Error(`export ${exportId} vanished`);
    return found;
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

  async setFiles(exportId: string, { directoryKey, files, parity }: ExportOutcome): Promise<void> {
    await this.#sql.run(
      'update exports set artifact_key = ?, files = ?, parity = ? where id = ?',
      directoryKey,
      JSON.stringify(files),
      JSON.stringify(parity),
      exportId,
    );
  }

  async markDeleted(exportId: string, now: number): Promise<void> {
    await this.#sql.run('update exports set deleted_at = ?, artifact_key = null where id = ?', now, exportId);
  }

  /** @returns the deleted exports before their deletion */
  async deleteOfModel(modelId: string, now: number): Promise<ModelExport[]> {
    const exports = (
      await this.#sql.all<ExportRow>(
        `select ${COLUMNS} from ${FROM} where x.model_id = ? and x.deleted_at is null`,
        modelId,
      )
    ).map(toExport);
    await this.#sql.run(
      'update exports set deleted_at = ?, artifact_key = null where model_id = ? and deleted_at is null',
      now,
      modelId,
    );
    return exports;
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
    // Cancelling an export deletes it; one cancelled in another way did not succeed either.
    status: row.status === 'cancelled' ? 'failed' : row.status,
    sourceDirectoryKey: row.source_artifact_key,
    sourceDigest: row.source_digest,
    directoryKey: row.artifact_key,
    files: JSON.parse(row.files) as ExportedFile[],
    parity: row.parity === null ? null : parseObject(row.parity),
    errorMessage: row.error_message,
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}

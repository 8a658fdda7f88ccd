import { randomUUID } from 'node:crypto';
import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { AddArtifactResult, Artifact, ArtifactName, NewArtifact } from './artifacts.ts';
import type { Statements } from '../../contract/sql.ts';
import { listPage } from '../list.ts';

type ArtifactRow = {
  id: string;
  entity_id: string;
  entity: string;
  project: string;
  name: string;
  version: number;
  file_name: string;
  blob_key: string;
  digest: string;
  size_bytes: number;
  num_lines: number;
  created_at: number;
};

const COLUMNS = 'a.*, e.name as entity';
const FROM = 'artifacts a join entities e on e.id = a.entity_id';
const OF_NAME = 'a.entity_id = ? and a.project = ? and a.name = ?';
const LIVE = 'a.deleted_at is null';

export class ArtifactTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async add(input: NewArtifact, now: number): Promise<AddArtifactResult> {
    const latest = await this.find(input, 'latest');
    if (latest !== null && latest.digest === input.digest && latest.fileName === input.fileName)
      return { artifact: latest, isNew: false };
    const { entityId, project, name, fileName, blobKey, digest, sizeBytes, numLines } = input;
    const next = await this.#sql.get<{ version: number }>(
      `select coalesce(max(version) + 1, 0) as version from artifacts a where ${OF_NAME}`,
      entityId,
      project,
      name,
    );
    const version = next?.version ?? 0;
    await this.#sql.run(
      `insert into artifacts (id, entity_id, project, name, version, file_name, blob_key, digest, size_bytes, num_lines, created_at)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      randomUUID(),
      entityId,
      project,
      name,
      version,
      fileName,
      blobKey,
      digest,
      sizeBytes,
      numLines,
      now,
    );
    const artifact = await this.find(input, version);
    if (artifact === null) throw new Error(`version ${version} of the artifact just written vanished`);
    return { artifact, isNew: true };
  }

  async find({ entityId, project, name }: ArtifactName, version: number | 'latest'): Promise<Artifact | null> {
    const sql = `select ${COLUMNS} from ${FROM} where ${OF_NAME} and ${LIVE}`;
    const row =
      version === 'latest'
        ? await this.#sql.get<ArtifactRow>(`${sql} order by a.version desc limit 1`, entityId, project, name)
        : await this.#sql.get<ArtifactRow>(`${sql} and a.version = ?`, entityId, project, name, version);
    return row === undefined ? null : toArtifact(row);
  }

  async list(query: OrderedPageQuery & { entityId: string; project?: string; name?: string }): Promise<Page<Artifact>> {
    return await listPage<ArtifactRow, Artifact>(
      this.#sql,
      {
        name: 'artifacts',
        columns: COLUMNS,
        from: FROM,
        id: 'a.id',
        position: 'a.position',
        filters: [
          ['a.entity_id = ?', query.entityId],
          ['a.project = ?', query.project],
          ['a.name = ?', query.name],
        ],
        visible: { condition: LIVE },
      },
      query,
      toArtifact,
    );
  }

  async delete(id: string, now: number): Promise<boolean> {
    return (
      (await this.#sql.run('update artifacts set deleted_at = ? where id = ? and deleted_at is null', now, id)) === 1
    );
  }
}

function toArtifact(row: ArtifactRow): Artifact {
  return {
    id: row.id,
    entityId: row.entity_id,
    entity: row.entity,
    project: row.project,
    name: row.name,
    version: row.version,
    fileName: row.file_name,
    blobKey: row.blob_key,
    digest: row.digest,
    sizeBytes: row.size_bytes,
    numLines: row.num_lines,
    createdAt: row.created_at,
  };
}

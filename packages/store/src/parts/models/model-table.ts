import { randomUUID } from 'node:crypto';
import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { FindModelResult, Model, ModelFilter, NewModel, WarmStart } from './models.ts';
import type { Statements } from '../../contract/sql.ts';
import { listPage } from '../list.ts';
import { rowsOfIds } from '../rows-of.ts';

type ModelRow = {
  id: string;
  entity_id: string;
  entity: string;
  project: string;
  name: string;
  base_model: string;
  lora: string;
  run_id: string;
  init_source: string | null;
  init_artifact_key: string | null;
  next_step: number;
  num_gradient_steps: number;
  created_at: number;
  notes: string;
  archived_at: number | null;
};

const COLUMNS = 'm.*, e.name as entity';
const FROM = 'models m join entities e on e.id = m.entity_id';
const SELECT = `select ${COLUMNS} from ${FROM}`;

const ARCHIVED: Readonly<Record<NonNullable<ModelFilter['archived']>, readonly string[]>> = {
  excluded: ['m.archived_at is null'],
  only: ['m.archived_at is not null'],
  included: [],
};
const HAS_TAG = 'exists (select 1 from model_tags t where t.model_id = m.id and t.tag = ?)';

/** Registered models. Deleted rows stay as hidden tombstones. */
export class ModelTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** @throws {StoreError} `store.constraint_violated` if the entity is unknown */
  async insert(input: NewModel, warmStart: WarmStart | null, now: number): Promise<Model> {
    const id = input.id ?? randomUUID();
    await this.#sql.run(
      'insert into models (id, entity_id, project, name, base_model, lora, run_id, init_source, init_artifact_key, next_step, created_at, notes) values (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)',
      id,
      input.entityId,
      input.project,
      input.name,
      input.baseModel,
      JSON.stringify(input.lora),
      id,
      warmStart?.source ?? null,
      warmStart?.directoryKey ?? null,
      now,
      input.notes ?? '',
    );
    const model = await this.get(id);
    if (model === null) throw new Error(`model ${id} vanished`);
    return model;
  }

  async get(modelId: string): Promise<Model | null> {
    const row = await this.#sql.get<ModelRow>(`${SELECT} where m.id = ? and m.deleted_at is null`, modelId);
    return row === undefined ? null : toModel(row);
  }

  /** Returns the ids that belong to a model. */
  async whichExist(modelIds: readonly string[]): Promise<string[]> {
    const rows = await rowsOfIds<{ id: string }>(
      this.#sql,
      modelIds,
      (marks) => `select id from models where id in (${marks}) and deleted_at is null`,
    );
    return rows.map(({ id }) => id);
  }

  async findByIdentity(entityId: string, project: string, name: string): Promise<Model | null> {
    const row = await this.#sql.get<ModelRow>(
      `${SELECT} where m.entity_id = ? and m.project = ? and m.name = ? and m.deleted_at is null`,
      entityId,
      project,
      name,
    );
    return row === undefined ? null : toModel(row);
  }

  async find(entity: string, project: string, name: string): Promise<Model | null> {
    const row = await this.#sql.get<ModelRow>(
      `${SELECT} where e.name = ? and m.project = ? and m.name = ? and m.deleted_at is null`,
      entity,
      project,
      name,
    );
    return row === undefined ? null : toModel(row);
  }

  async findByName(entity: string, name: string): Promise<FindModelResult> {
    const rows = await this.#sql.all<ModelRow>(
      `${SELECT} where e.name = ? and m.name = ? and m.deleted_at is null order by m.position`,
      entity,
      name,
    );
    const models = rows.map(toModel);
    const [first, second] = models;
    if (first === undefined) return { kind: 'none' };
    return second === undefined ? { kind: 'found', model: first } : { kind: 'ambiguous', models };
  }

  async list(query: OrderedPageQuery & ModelFilter): Promise<Page<Model>> {
    const { tags = [], archived = 'included' } = query;
    return await listPage<ModelRow, Model>(
      this.#sql,
      {
        name: 'models',
        columns: COLUMNS,
        from: FROM,
        id: 'm.id',
        position: 'm.position',
        filters: [
          ['m.entity_id = ?', query.entityId],
          ['m.project = ?', query.project],
        ],
        // Not a filter: a page after a model that is archived or loses its tag meanwhile is still known.
        visible: {
          condition: ['m.deleted_at is null', ...ARCHIVED[archived], ...tags.map(() => HAS_TAG)].join(' and '),
          parameters: tags,
        },
      },
      query,
      toModel,
    );
  }

  async advanceStep(modelId: string): Promise<void> {
    await this.#sql.run('update models set next_step = next_step + 1 where id = ?', modelId);
  }

  /** Does nothing if the next step is already a later one. */
  async advanceStepTo(modelId: string, nextStep: number): Promise<void> {
    await this.#sql.run('update models set next_step = ? where id = ? and next_step < ?', nextStep, modelId, nextStep);
  }

  /**
   * @returns the number of gradient steps of the model including this one, over all its jobs, and the step
   *   that they lead to
   */
  async countGradientStep(modelId: string): Promise<Pick<Model, 'nextStep' | 'numGradientSteps'>> {
    const row = await this.#sql.get<{ next_step: number; num_gradient_steps: number }>(
      'update models set num_gradient_steps = num_gradient_steps + 1 where id = ? returning next_step, num_gradient_steps',
      modelId,
    );
    if (row === undefined) throw new Error(`model ${modelId} vanished`);
    return { nextStep: row.next_step, numGradientSteps: row.num_gradient_steps };
  }

  async setNotes(modelId: string, notes: string): Promise<void> {
    await this.#sql.run('update models set notes = ? where id = ?', notes, modelId);
  }

  /** Keeps the time of an earlier archiving. @param at null: not archived */
  async setArchived(modelId: string, at: number | null): Promise<void> {
    const time = at === null ? '?' : 'coalesce(archived_at, ?)';
    await this.#sql.run(`update models set archived_at = ${time} where id = ?`, at, modelId);
  }

  /** True if its row is a tombstone. */
  async wasDeleted(modelId: string): Promise<boolean> {
    const row = await this.#sql.get('select 1 from models where id = ? and deleted_at is not null', modelId);
    return row !== undefined;
  }

  async markDeleted(modelId: string, now: number): Promise<void> {
    await this.#sql.run('update models set deleted_at = ? where id = ?', now, modelId);
  }

  /**
   * Removes the rows of up to `limit` models deleted before `before`, with all dependent rows; models that
   * still have rows of a run stay.
   * @returns the number removed; less than `limit` if there are no more
   */
  async purge(before: number, limit: number): Promise<number> {
    const doomed = await this.#sql.all<{ id: string }>(
      `select id from models where deleted_at < ? and not exists (select 1 from trajectory_sets s where s.model_id = models.id)
         and not exists (select 1 from metric_series s where s.model_id = models.id) order by position limit ?`,
      before,
      limit,
    );
    for (const { id } of doomed) {
      await this.#sql.run('delete from exports where model_id = ?', id);
      await this.#sql.run('delete from tracked_runs where model_id = ?', id);
      await this.#sql.run('delete from trajectory_logs where model_id = ?', id);
      await this.#sql.run('delete from checkpoints where model_id = ?', id);
      await this.#sql.run('delete from job_events where job_id in (select id from jobs where model_id = ?)', id);
      await this.#sql.run('delete from jobs where model_id = ?', id);
      await this.#sql.run('delete from model_tags where model_id = ?', id);
      await this.#sql.run('delete from models where id = ?', id);
    }
    return doomed.length;
  }
}

function toModel(row: ModelRow): Model {
  return {
    id: row.id,
    entityId: row.entity_id,
    entity: row.entity,
    project: row.project,
    name: row.name,
    baseModel: row.base_model,
    lora: JSON.parse(row.lora),
    runId: row.run_id,
    warmStart: row.init_source === null ? null : { source: row.init_source, directoryKey: row.init_artifact_key },
    nextStep: row.next_step,
    numGradientSteps: row.num_gradient_steps,
    createdAt: row.created_at,
    notes: row.notes,
    archivedAt: row.archived_at,
  };
}

import { randomUUID } from 'node:crypto';
import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { Adapter, NewAdapter } from './adapters.ts';
import type { LoraShape } from '../checkpoints/checkpoints.ts';
import type { Statements } from '../../contract/sql.ts';
import { listPage } from '../list.ts';

type AdapterRow = {
  id: string;
  entity_id: string;
  base_model: string;
  config_key: string | null;
  weights_key: string | null;
  lora: string | null;
  artifact_key: string | null;
  digest: string | null;
  created_at: number;
  committed_at: number | null;
};

/** Imported adapters and unfinished uploads. Deleted rows stay as tombstones. */
export class AdapterTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** @throws {StoreError} `store.constraint_violated` if the entity is unknown */
  async insert(input: NewAdapter, now: number): Promise<Adapter> {
    const id = input.id ?? randomUUID();
    await this.#sql.run(
      'insert into adapters (id, entity_id, base_model, config_key, weights_key, created_at) values (?, ?, ?, ?, ?, ?)',
      id,
      input.entityId,
      input.baseModel,
      input.configKey,
      input.weightsKey,
      now,
    );
    return await this.#existing(id);
  }

  async get(adapterId: string): Promise<Adapter | null> {
    const row = await this.#sql.get<AdapterRow>(
      'select * from adapters where id = ? and deleted_at is null',
      adapterId,
    );
    return row === undefined ? null : toAdapter(row);
  }

  async list(query: OrderedPageQuery & { entityId: string }): Promise<Page<Adapter>> {
    return await listPage<AdapterRow, Adapter>(
      this.#sql,
      {
        name: 'adapters',
        columns: '*',
        from: 'adapters',
        id: 'id',
        position: 'position',
        filters: [['entity_id = ?', query.entityId]],
        visible: { condition: 'deleted_at is null' },
      },
      query,
      toAdapter,
    );
  }

  async countUploads(entityId: string): Promise<number> {
    const row = await this.#sql.get<{ count: number }>(
      'select count(*) as count from adapters where entity_id = ? and committed_at is null and deleted_at is null',
      entityId,
    );
    return row?.count ?? 0;
  }

  /** Uncommitted uploads of the entity that started before `before`. */
  async listUploads(entityId: string, before: number): Promise<Adapter[]> {
    return (
      await this.#sql.all<AdapterRow>(
        'select * from adapters where entity_id = ? and committed_at is null and deleted_at is null and created_at < ?',
        entityId,
        before,
      )
    ).map(toAdapter);
  }

  async commit(adapterId: string, content: NonNullable<Adapter['content']>, now: number): Promise<Adapter> {
    await this.#sql.run(
      `update adapters set config_key = null, weights_key = null, lora = ?, artifact_key = ?, digest = ?, committed_at = ? where id = ?`,
      JSON.stringify(content.lora),
      content.directoryKey,
      content.digest,
      now,
      adapterId,
    );
    return await this.#existing(adapterId);
  }

  async markDeleted(adapterId: string, now: number): Promise<void> {
    await this.#sql.run(
      'update adapters set config_key = null, weights_key = null, artifact_key = null, deleted_at = ? where id = ?',
      now,
      adapterId,
    );
  }

  async #existing(adapterId: string): Promise<Adapter> {
    const adapter = await this.get(adapterId);
    if (adapter === null) throw new Error(`adapter ${adapterId} vanished`);
    return adapter;
  }
}

function toAdapter(row: AdapterRow): Adapter {
  const { config_key: configKey, weights_key: weightsKey, lora, artifact_key: directoryKey, digest } = row;
  const isReady = lora !== null && directoryKey !== null && digest !== null;
  return {
    id: row.id,
    entityId: row.entity_id,
    baseModel: row.base_model,
    upload: configKey === null || weightsKey === null ? null : { configKey, weightsKey },
    content: isReady ? { lora: JSON.parse(lora) as LoraShape, directoryKey, digest } : null,
    createdAt: row.created_at,
    committedAt: row.committed_at,
  };
}

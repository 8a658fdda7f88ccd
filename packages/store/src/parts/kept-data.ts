import type { Statements } from '../contract/sql.ts';

interface DataColumns {
  readonly table: 'jobs' | 'trajectory_logs';
  /** Key of the blob; null if the row never had one. */
  readonly key: 'data_key' | 'blob_key';
  /** Start of the data's lifetime, ms; null until it starts. */
  readonly since: 'finished_at' | 'created_at';
}

/** Blobs that the rows of a table have for a limited time. */
export class KeptData {
  readonly #sql: Statements;
  readonly #columns: DataColumns;

  constructor(sql: Statements, columns: DataColumns) {
    this.#sql = sql;
    this.#columns = columns;
  }

  /** Keys of the blobs that the rows of a model have, or had. */
  async listKeysOf(modelId: string): Promise<string[]> {
    const { table, key } = this.#columns;
    const rows = await this.#sql.all<{ key: string }>(
      `select distinct ${key} as key from ${table} where model_id = ? and ${key} is not null`,
      modelId,
    );
    return rows.map((row) => row.key);
  }

  /** Marks as removed the data of up to `limit` rows from before that time. @returns their keys */
  async markRemoved(before: number, limit: number, now: number): Promise<string[]> {
    const { table, key, since } = this.#columns;
    const rows = await this.#sql.all<{ key: string }>(
      `update ${table} set data_removed_at = ? where position in (
         select position from ${table} where ${key} is not null and data_removed_at is null and ${since} < ? order by ${since} limit ?)
       returning ${key} as key`,
      now,
      before,
      limit,
    );
    return rows.map((row) => row.key);
  }

  /** Counts the rows that have their data, and those that lost them since that time. */
  async count(removedSince: number): Promise<{ numKept: number; numRemoved: number }> {
    const { table, key } = this.#columns;
    const row = await this.#sql.get<{ kept: number | null; removed: number | null }>(
      `select cast(sum(case when data_removed_at is null then 1 else 0 end) as bigint) as kept,
         cast(sum(case when data_removed_at >= ? then 1 else 0 end) as bigint) as removed
       from ${table} where ${key} is not null`,
      removedSince,
    );
    return { numKept: Number(row?.kept ?? 0), numRemoved: Number(row?.removed ?? 0) };
  }

  /** True if a row still has this blob. */
  async has(blobKey: string): Promise<boolean> {
    const { table, key } = this.#columns;
    const row = await this.#sql.get(
      `select 1 from ${table} where ${key} = ? and data_removed_at is null limit 1`,
      blobKey,
    );
    return row !== undefined;
  }
}

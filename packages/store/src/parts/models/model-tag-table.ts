import type { Statements } from '../../contract/sql.ts';
import { rowsOf, rowsOfIds } from '../rows-of.ts';

/** Tags of models: a model has each at most once. */
export class ModelTagTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async add(modelId: string, tags: readonly string[]): Promise<void> {
    if (tags.length === 0) return;
    await this.#sql.run(
      `insert into model_tags (model_id, tag) values ${rowsOf(tags.length, '(?, ?)')} on conflict (model_id, tag) do nothing`,
      ...tags.flatMap((tag) => [modelId, tag]),
    );
  }

  async remove(modelId: string, tags: readonly string[]): Promise<void> {
    if (tags.length === 0) return;
    const marks = rowsOf(tags.length, '?');
    await this.#sql.run(`delete from model_tags where model_id = ? and tag in (${marks})`, modelId, ...tags);
  }

  /** Tags of these models, in the order of their characters; no entry without tags. */
  async list(modelIds: readonly string[]): Promise<Map<string, string[]>> {
    const rows = await rowsOfIds<{ model_id: string; tag: string }>(
      this.#sql,
      modelIds,
      (marks) => `select model_id, tag from model_tags where model_id in (${marks})`,
    );
    const ofModels = Map.groupBy(rows, ({ model_id: modelId }) => modelId);
    // Databases compare texts in orders of their own.
    return new Map(Array.from(ofModels, ([modelId, own]) => [modelId, own.map(({ tag }) => tag).toSorted()]));
  }
}

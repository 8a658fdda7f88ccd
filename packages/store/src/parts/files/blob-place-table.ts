import type { Statements } from '../../contract/sql.ts';

/** Name of the blobs that belong to this database: one row, written once. */
export class BlobPlaceTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async id(): Promise<string | null> {
    return (await this.#sql.get<{ id: string }>('select id from blob_places'))?.id ?? null;
  }

  /** @returns their name: another one if a different process was first */
  async claim(id: string): Promise<string> {
    await this.#sql.run('insert into blob_places (only_row, id) values (1, ?) on conflict (only_row) do nothing', id);
    return (await this.id()) ?? id;
  }
}

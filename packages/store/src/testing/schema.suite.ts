import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Queries, Sql } from '../contract/sql.ts';
import { SCHEMA } from '../migrations/0031-schema.ts';
import { BEFORE_FIRST_RELEASE } from '../migrations/before-first-release/index.ts';
import type { Migration } from '../migrations/migration.ts';
import { RowSum } from '../moving/table-digest.ts';
import { TABLE_NAMES, type TableName } from '../moving/table-names.ts';
import type { Catalogue } from './catalogue.ts';
import { fillEarlierVersion } from './earlier-rows.ts';

/** An empty database. `open` returns another handle on it each time, migrated as given, or as at a start. */
export interface SchemaHarness {
  open(migrations?: readonly Migration[]): Promise<Sql>;
  version(queries: Queries): Promise<number>;
  catalogue(queries: Queries): Promise<Catalogue>;
  /** Closes every handle and removes the data. */
  destroy(): Promise<void>;
}

async function digestOfRows(queries: Queries, tables: readonly TableName[]) {
  const digests = [];
  for (const table of tables) {
    const sum = new RowSum();
    for (const row of (await queries.query(`select * from ${table}`, [])).rows) sum.add(row);
    digests.push(sum.of(table));
  }
  return digests;
}

/** Required of the schema on every driver: databases from before the first release reach it with all their rows. */
export function schemaSuite(name: string, makeHarness: () => Promise<SchemaHarness>): void {
  describe(`schema: ${name}`, () => {
    let one: SchemaHarness;
    let two: SchemaHarness;
    beforeEach(async () => {
      [one, two] = [await makeHarness(), await makeHarness()];
    });
    afterEach(async () => {
      for (const harness of [one, two]) await harness.destroy();
    });

    /** Migrates to that version step by step, each at a start of its own, and fills the tables. */
    async function fillVersion(harness: SchemaHarness, version: number): Promise<Map<string, number>> {
      const sql = await harness.open(BEFORE_FIRST_RELEASE.slice(0, version));
      const filled = await sql.transaction((queries) => fillEarlierVersion(queries, version));
      await sql.close();
      return filled;
    }

    it('a new database has every table, column, constraint, index and trigger to which the steps lead', async () => {
      const bySteps = await one.catalogue(await one.open(BEFORE_FIRST_RELEASE));
      const bySchema = await two.catalogue(await two.open([SCHEMA]));
      expect(JSON.stringify(bySteps)).toContain('conversations_by_use');
      expect(bySchema).toEqual(bySteps);
    });

    it('a filled database to which the steps have led is opened as it is', async () => {
      const filled = await fillVersion(one, SCHEMA.version);
      const tables = [...filled.keys()] as TableName[];
      const before = await one.open(BEFORE_FIRST_RELEASE);
      const [rows, catalogue] = [await digestOfRows(before, tables), await one.catalogue(before)];
      expect(rows.map(({ table, numRows }) => [table, numRows])).toEqual([...filled]);
      await before.close();
      const after = await one.open([SCHEMA]);
      expect(await digestOfRows(after, tables)).toEqual(rows);
      expect(await one.catalogue(after)).toEqual(catalogue);
      expect(await one.version(after)).toBe(SCHEMA.version);
      const newer = { version: SCHEMA.version + 1, name: 'newer', sql: () => 'create table extra (id text);' };
      const next = await one.open([SCHEMA, newer]);
      expect(await digestOfRows(next, tables)).toEqual(rows);
      await expect(one.open([SCHEMA])).rejects.toMatchObject({ code: 'store.schema_newer' });
    });

    it.each([1, 11, 18, 24, 30, 31])(
      'a start upgrades a filled database of version %i as its steps one by one do, and every row remains',
      async (version) => {
        const filled = await fillVersion(one, version);
        await fillVersion(two, version);
        for (let step = version + 1; step <= SCHEMA.version; step++)
          await (await two.open(BEFORE_FIRST_RELEASE.slice(0, step))).close();
        const [atOnce, stepwise] = [await one.open(), await two.open()];
        const rows = await digestOfRows(atOnce, TABLE_NAMES);
        expect(rows).toEqual(await digestOfRows(stepwise, TABLE_NAMES));
        expect(await one.catalogue(atOnce)).toEqual(await two.catalogue(stepwise));
        const numRows = new Map<string, number>(rows.map((digest) => [digest.table, digest.numRows]));
        if (version < 12) filled.set('jobs', filled.get('jobs')! + (filled.get('exports') ?? 0));
        for (const [table, wanted] of filled) expect([table, numRows.get(table)]).toEqual([table, wanted]);
      },
    );

    it('several processes that open a database of an earlier version at the same time upgrade it once', async () => {
      await fillVersion(one, 18);
      await fillVersion(two, 18);
      const expected = await digestOfRows(await two.open(), TABLE_NAMES);
      const handles = await Promise.all(Array.from({ length: 4 }, () => one.open()));
      for (const sql of handles) expect(await digestOfRows(sql, TABLE_NAMES)).toEqual(expected);
    });
  });
}

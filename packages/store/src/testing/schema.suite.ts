import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { Queries, Sql } from '../contract/sql.ts';
import { POINTS_OF_JOBS } from '../migrations/0036-points-of-jobs.ts';
import { MIGRATIONS } from '../migrations/index.ts';
import { insertRow } from './insert-row.ts';
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

    it('older points are split into first and later gradient steps, and get their job', async () => {
      const before = await one.open(MIGRATIONS.filter(({ version }) => version < POINTS_OF_JOBS.version));
      await before.transaction(async (queries) => {
        await insertRow(queries, 'entities', { id: 'e', name: 'local', created_at: 1 });
        const model = { entity_id: 'e', project: 'p', base_model: 'b', lora: '{}', next_step: 1, created_at: 1 };
        await insertRow(queries, 'models', { id: 'm', name: 'm', run_id: 'm', num_gradient_steps: 4, ...model });
        await insertRow(queries, 'models', { id: 'n', name: 'n', run_id: 'n', num_gradient_steps: 9, ...model });
        const steps = [
          ['a', 'gradient_step:0', 10, 1],
          ['a', 'gradient_step:1', 11, 2],
          ['b', 'gradient_step:0', 12, 1],
          ['b', 'gradient_step:1', 13, 2],
          ['c', 'gradient_step:0', 10, 1],
        ] as const;
        for (const [id, modelId] of [
          ['a', 'm'],
          ['b', 'm'],
          ['c', 'n'],
        ] as const)
          await insertRow(queries, 'jobs', {
            id,
            entity_id: 'e',
            model_id: modelId,
            turn: modelId,
            kind: 'rl',
            status: 'succeeded',
            config: '{}',
            data_key: id,
            created_at: 1,
            finished_at: 2,
          });
        for (const [job, key, at, seq] of steps)
          await insertRow(queries, 'job_events', {
            id: `${job}${seq}`,
            job_id: job,
            seq,
            type: 'gradient_step',
            data: '{}',
            dedupe_key: key,
            created_at: at,
          });
        for (const [modelId, name, num] of [
          ['m', 'train/probs_corr', 4],
          ['m', 'train/loss', 4],
          ['m', 'val/reward', 1],
          ['n', 'train/probs_corr', 1],
        ] as const) {
          await insertRow(queries, 'metric_series', { model_id: modelId, name, num_points: num });
          const last = await queries.query<{ id: number }>('select max(id) as id from metric_series', []);
          for (let place = 0; place < num; place++)
            await insertRow(queries, 'metric_points', {
              series_id: last.rows[0]!.id,
              position: place,
              step: 1,
              gradient_step: name === 'val/reward' ? null : place,
              value: place / 4,
              recorded_at: 1,
            });
        }
      });
      await before.close();
      const after = await one.open();
      const { rows } = await after.transaction((queries) =>
        queries.query<Record<string, number | string | null>>(
          `select s.model_id, s.name, s.num_points, p.position, p.gradient_step, p.value, j.id as job
         from metric_series s join metric_points p on p.series_id = s.id left join jobs j on j.position = p.job_position
         order by s.model_id, s.name, p.position`,
          [],
        ),
      );
      const values = rows.map((row) => Object.values(row));
      expect(values).toEqual(
        [
          ...[0, 1, 2, 3].map((place) => ['m', 'train/loss', 4, place, place, place / 4, place < 2 ? 'a' : 'b']),
          ['m', 'train/fresh/probs_corr', 2, 0, 0, 0, 'a'],
          ['m', 'train/fresh/probs_corr', 2, 1, 2, 0.5, 'b'],
          ['m', 'train/updated/probs_corr', 2, 0, 1, 0.25, 'a'],
          ['m', 'train/updated/probs_corr', 2, 1, 3, 0.75, 'b'],
          ['m', 'val/reward', 1, 0, null, 0, null],
          // Its number of gradient steps differs from that of its events.
          ['n', 'train/updated/probs_corr', 1, 0, 0, 0, null],
        ].toSorted((first, second) => (String(first.slice(0, 2)) < String(second.slice(0, 2)) ? -1 : 1)),
      );
    });

    it('several processes that open a database of an earlier version at the same time upgrade it once', async () => {
      await fillVersion(one, 18);
      await fillVersion(two, 18);
      const expected = await digestOfRows(await two.open(), TABLE_NAMES);
      const handles = await Promise.all(Array.from({ length: 4 }, () => one.open()));
      for (const sql of handles) expect(await digestOfRows(sql, TABLE_NAMES)).toEqual(expected);
    });
  });
}

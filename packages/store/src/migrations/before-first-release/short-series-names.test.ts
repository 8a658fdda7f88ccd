import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { SqliteSql } from '../../drivers/sqlite/sqlite-sql.ts';
import { BEFORE_FIRST_RELEASE } from './index.ts';

/** Version that this step leads to. */
const SHORT_SERIES_NAMES = 25;

test('long series names of older versions are shortened to the limit, each unique, in characters', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-schema-'));
  try {
    const path = join(directory, 'store.sqlite');
    const before = new SqliteSql(path, { migrations: BEFORE_FIRST_RELEASE.slice(0, SHORT_SERIES_NAMES - 1) });
    await before.query(`insert into entities (id, name, created_at) values ('e', 'local', 1)`, []);
    for (const id of ['m', 'n'])
      await before.query(
        `insert into models (id, entity_id, project, name, base_model, lora, run_id, next_step, created_at)
         values (?, 'e', 'p', ?, 'base', '{}', ?, 1, 1)`,
        [id, id, id],
      );
    const [whole, alike, wide] = ['w'.repeat(256), 'a'.repeat(256), '😀'.repeat(256)];
    const rows = [
      ['m', whole],
      ['m', `${alike}1`],
      ['m', `${alike}2`],
      ['m', `${wide}${wide}`],
      ['n', `${whole}more`],
    ];
    for (const row of rows)
      await before.query('insert into metric_series (model_id, name, num_points) values (?, ?, 1)', row);
    await before.close();
    const after = new SqliteSql(path);
    const names = (await after.query('select name from metric_series order by id', [])).rows.map(({ name }) => name);
    await after.close();
    expect(names).toEqual([whole, `${'a'.repeat(230)} 2`, `${'a'.repeat(230)} 3`, wide, whole]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

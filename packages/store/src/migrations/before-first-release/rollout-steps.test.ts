import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { SqliteSql } from '../../drivers/sqlite/sqlite-sql.ts';
import { BEFORE_FIRST_RELEASE } from './index.ts';

/** Version that this step leads to. */
const ROLLOUT_STEPS = 26;

test('points of rollouts move to the step that these were drawn from, points of updates and of logs stay', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-schema-'));
  try {
    const path = join(directory, 'store.sqlite');
    const before = new SqliteSql(path, { migrations: BEFORE_FIRST_RELEASE.slice(0, ROLLOUT_STEPS - 1) });
    await before.query(`insert into entities (id, name, created_at) values ('e', 'local', 1)`, []);
    await before.query(
      `insert into models (id, entity_id, project, name, base_model, lora, run_id, next_step, created_at)
       values ('m', 'e', 'p', 'm', 'base', '{}', 'm', 1, 1)`,
      [],
    );
    for (const name of ['train/reward', 'train/loss'])
      await before.query(`insert into metric_series (model_id, name, num_points) values ('m', ?, 3)`, [name]);
    for (const [position, [step, gradientStep]] of [
      [1, 0],
      [2, 1],
      [2, null],
    ].entries())
      await before.query(
        `insert into metric_points (series_id, position, step, gradient_step, value, recorded_at)
         select id, ?, ?, ?, 0.5, 1 from metric_series`,
        [position, step!, gradientStep!],
      );
    await before.close();
    const after = new SqliteSql(path);
    const { rows } = await after.query(
      'select name, step from metric_points join metric_series on id = series_id order by name desc, position',
      [],
    );
    await after.close();
    const stepsOf = (wanted: string) => rows.flatMap(({ name, step }) => (name === wanted ? [step] : []));
    expect(stepsOf('train/reward')).toEqual([0, 1, 2]);
    expect(stepsOf('train/loss')).toEqual([1, 2, 2]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

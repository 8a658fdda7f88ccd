import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { SqliteSql } from '../../drivers/sqlite/sqlite-sql.ts';
import { BEFORE_FIRST_RELEASE } from './index.ts';

/** Version that this step leads to. */
const KEPT_CHECKPOINTS = 29;

test('checkpoints from before are marked, so that an upgrade removes none; deleted ones are not', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-schema-'));
  try {
    const path = join(directory, 'store.sqlite');
    const before = new SqliteSql(path, { migrations: BEFORE_FIRST_RELEASE.slice(0, KEPT_CHECKPOINTS - 1) });
    await before.query(`insert into entities (id, name, created_at) values ('e', 'local', 1)`, []);
    await before.query(
      `insert into models (id, entity_id, project, name, base_model, lora, run_id, next_step, created_at)
       values ('m', 'e', 'p', 'm', 'base', '{}', 'm', 3, 1)`,
      [],
    );
    for (const [step, deletedAt] of [
      [0, null],
      [1, 9],
      [2, null],
    ] as const)
      await before.query(
        `insert into checkpoints (id, model_id, step, metrics, created_at, deleted_at) values (?, 'm', ?, '{}', 5, ?)`,
        [`c${step}`, step, deletedAt],
      );
    await before.close();
    const after = new SqliteSql(path);
    const { rows } = await after.query('select step, kept_at from checkpoints order by step', []);
    await after.close();
    expect(rows.map((row) => row['kept_at'])).toEqual([5, null, 5]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

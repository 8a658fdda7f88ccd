import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { expect, test } from 'vitest';

import { SqliteSql } from '../drivers/sqlite/sqlite-sql.ts';
import { TABLE_NAMES } from '../moving/table-names.ts';

/** Tables whose rows are never removed. */
const LASTING = new Set(['entities', 'api_keys']);

test('every reference to removable rows has an index', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-schema-'));
  try {
    const path = join(directory, 'store.sqlite');
    await new SqliteSql(path).close();
    using database = new DatabaseSync(path);
    const column = (table: string, position: number) =>
      database.prepare(`select name from pragma_table_info('${table}') where cid = ${position}`).get()?.['name'];
    const unindexed = TABLE_NAMES.flatMap((table) => {
      const firsts = new Set(
        database
          .prepare(
            `select i.cid as position from pragma_index_list('${table}') l, pragma_index_info(l.name) i where i.seqno = 0 and l.partial = 0`,
          )
          .all()
          .map(({ position }) => column(table, Number(position))),
      );
      // A table in the order of its key is its own index.
      for (const { name } of database.prepare(`select name from pragma_table_info('${table}') where pk = 1`).all())
        firsts.add(name);
      return database
        .prepare(`select "from" as own, "table" as parent from pragma_foreign_key_list('${table}')`)
        .all()
        .filter(({ own, parent }) => !LASTING.has(String(parent)) && !firsts.has(own))
        .map(({ own }) => `${table}.${String(own)}`);
    });
    expect(unindexed).toEqual([]);
  } finally {
    await rm(directory, { recursive: true });
  }
});

/** In every role, a process that is killed and restarted in its own data folder continues its work at once. */
import assert from 'node:assert/strict';

import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { killRoles, killWhole, linesOf } from '../support/killed-roles.ts';

let cluster: PostgresCluster;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
});
afterAll(() => cluster.stop());

test('one process of all roles, on SQLite and on PostgreSQL', { timeout: 300_000 }, async () => {
  const recoveries = [
    await killWhole('SQLite, folder', {}),
    await killWhole('PostgreSQL, folder', { TRAINYARD_DATABASE: await cluster.createSchema() }),
  ];
  expect(recoveries).toHaveLength(2);
  console.log(linesOf(recoveries));
});

test('trainer, engine and API process, on PostgreSQL', { timeout: 300_000 }, async () => {
  const recoveries = await killRoles('PostgreSQL, folder', await cluster.createSchema());
  expect(recoveries).toHaveLength(3);
  console.log(linesOf(recoveries));
});

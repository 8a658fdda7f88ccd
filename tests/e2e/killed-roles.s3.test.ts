/** As `killed-roles.postgres.test.ts`, with the blobs in a bucket. */
import assert from 'node:assert/strict';

import { CREDENTIALS, PostgresCluster, REGION, S3Server } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { killRoles, killWhole, linesOf } from '../support/killed-roles.ts';

let server: S3Server;
let cluster: PostgresCluster;
beforeAll(async () => {
  const { TRAINYARD_TEST_S3_SERVER: program, TRAINYARD_TEST_POSTGRES: programs } = process.env;
  assert(program !== undefined && programs !== undefined, '`npm run lab -- s3` starts the servers');
  [server, cluster] = await Promise.all([S3Server.start(program), PostgresCluster.start(programs)]);
});
afterAll(async () => {
  await cluster?.stop();
  await server?.stop();
});

async function bucket(): Promise<Record<string, string>> {
  return {
    TRAINYARD_BUCKET: await server.createBucket(),
    TRAINYARD_BUCKET_REGION: REGION,
    AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
  };
}

test('one process of all roles on SQLite, and each role on PostgreSQL', { timeout: 400_000 }, async () => {
  const recoveries = [
    await killWhole('SQLite, bucket', await bucket()),
    await killWhole('PostgreSQL, bucket', { ...(await bucket()), TRAINYARD_DATABASE: await cluster.createSchema() }),
    ...(await killRoles('PostgreSQL, bucket', await cluster.createSchema(), await bucket())),
  ];
  expect(recoveries).toHaveLength(5);
  console.log(linesOf(recoveries));
});

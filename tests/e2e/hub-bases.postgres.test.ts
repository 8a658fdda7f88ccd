/** Base models of a hub that clients name, on services that share a PostgreSQL database. */
import assert from 'node:assert/strict';

import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { ask, followFetch, HUB_MODEL, HubOfTests, refusalOf, untilServed } from '../support/hub-bases.ts';
import { ServiceParts } from '../support/service-parts.ts';
import { smallService } from '../support/small-service.ts';

/** Pairs of database and processes. `hub-bases.test.ts` has those of SQLite. */
const PAIRS = [
  { database: 'SQLite', processes: 'one that does all', result: 'it fetches, serves and trains (hub-bases.test.ts)' },
  { database: 'PostgreSQL', processes: 'one that does all', result: 'it fetches, serves and trains' },
  { database: 'PostgreSQL', processes: 'two that do all', result: 'one fetches by the job, the other for itself' },
  { database: 'PostgreSQL', processes: 'api, and engine,trainer', result: 'refused with the next step' },
  { database: 'SQLite', processes: 'api, and engine,trainer', result: 'no such service: roles need PostgreSQL' },
] as const;
const titleOf = (index: number) => `${PAIRS[index]!.database}, ${PAIRS[index]!.processes}: ${PAIRS[index]!.result}`;

let cluster: PostgresCluster;
let own: HubOfTests;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  [cluster, own] = await Promise.all([PostgresCluster.start(programs), HubOfTests.open()]);
});
afterAll(async () => {
  await cluster.stop();
  await own.close();
});

const serviceOn = (shared: Record<string, string>) =>
  smallService({ dataDirectory: own.dataDirectory(), environment: { ...shared, ...own.environment() } });

test(`the services of ${titleOf(1)}; ${titleOf(2)}`, async () => {
  const shared = { TRAINYARD_DATABASE: await cluster.createSchema(), TRAINYARD_API_KEY: 'the-key-of-both-services' };
  const first = await serviceOn(shared);
  const clientOf = ({ url, apiKey }: typeof first) => new Trainyard({ baseUrl: url, apiKey, maxRetries: 0 });
  try {
    await followFetch(clientOf(first), own.hub);
    // Its cache is empty, and no job is queued for it.
    const before = own.hub.storageRequests().length;
    const second = await serviceOn(shared);
    try {
      const client = clientOf(second);
      await untilServed(client);
      expect(await ask(client, HUB_MODEL)).toBe('length');
      expect(own.hub.storageRequests().length).toBe(before + 1);
      const [base] = (await client.baseModels.list()).data.filter(({ id }) => id === HUB_MODEL);
      const [original] = (await clientOf(first).baseModels.list()).data.filter(({ id }) => id === HUB_MODEL);
      expect(base!.job_id).toBe(original!.job_id);
    } finally {
      await second.close();
    }
  } finally {
    await first.close();
  }
}, 300_000);

test(`the services of ${titleOf(3)}`, async () => {
  const parts = new ServiceParts({
    database: await cluster.createSchema(),
    secret: 'the-secret-of-engines-and-api-processes',
    more: own.environment(),
  });
  try {
    const [api] = await Promise.all([parts.api(), parts.part('engine,trainer')]);
    const client = new Trainyard({ baseUrl: api.url, apiKey: api.apiKey, maxRetries: 0 });
    const refusal = await refusalOf(client.models.register({ project: 'p', name: 'n', base_model: HUB_MODEL }));
    expect(refusal.status).toBe(404);
    expect(refusal.message).toMatch(
      /It is not fetched from the hub: the role is api, and other processes sample or train: run `trainyard pull` on their machines, and start engines and trainers with `--model`$/,
    );
    expect((await client.models.list().toArray()).length).toBe(0);
  } finally {
    await parts.close();
  }
}, 300_000);

/** Base models of a hub that clients name, on a service with a SQLite database. */
import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { ask, followFetch, HUB_MODEL, HubOfTests, refusalOf, untilServed } from '../support/hub-bases.ts';
import { smallService } from '../support/small-service.ts';

/** The rest of a file. */
const RANGE = /^bytes=\d{4,}-$/;

let own: HubOfTests;
beforeAll(async () => {
  own = await HubOfTests.open();
});
afterAll(() => own.close());

test('the service fetches a model that a client names, serves and trains it, also after a restart', async () => {
  const { hub } = own;
  const environment = { ...own.environment(), TRAINYARD_HUB_ALLOW: 'org/*' };
  const service = await smallService({ environment });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    await followFetch(client, hub);

    const refusals = {
      'other/model': /`--hub-allow` allows only org\/\*$/,
      'org/missing': null,
      nonsense: /is not served here/,
    };
    for (const [id, message] of Object.entries(refusals)) {
      if (message === null) continue;
      const refusal = await refusalOf(client.models.register({ project: 'hub', name: 'other', base_model: id }));
      expect([refusal.status, refusal.code]).toEqual([404, 'request.unknown_model']);
      expect(refusal.message).toMatch(message);
    }

    // A failure is kept with its reason, and a repeat tries again.
    await client.models.register({ project: 'hub', name: 'missing', base_model: 'org/missing' });
    const statusOf = async (id: string) => (await client.baseModels.list()).data.find((base) => base.id === id);
    await expect.poll(async () => (await statusOf('org/missing'))?.status).toBe('failed');
    const failed = await refusalOf(ask(client, 'local/hub/missing'));
    expect([failed.status, failed.code]).toEqual([400, 'request.conflict']);
    expect(failed.message).toMatch(/could not be fetched: org\/missing does not exist .* Register a model on it again/);
    hub.add('org/missing', { 'm-Q8_0.gguf': own.files.gguf });
    await client.baseModels.fetch('org/missing:Q8_0');
    await untilServed(client, 'org/missing:Q8_0');
    expect(await ask(client, 'org/missing:Q8_0')).toBe('length');

    // A cancelled download continues from its bytes.
    hub.add('org/other', own.files.folder);
    hub.bytesPerSecond = 15_000;
    await client.baseModels.fetch('org/other');
    await expect
      .poll(async () => (await statusOf('org/other'))?.done_bytes ?? 0, { interval: 50 })
      .toBeGreaterThan(60_000);
    expect((await client.baseModels.cancel('org/other')).status).toBe('cancelled');
    expect((await refusalOf(client.baseModels.cancel('org/other'))).code).toBe('request.job_ended');
    hub.bytesPerSecond = null;
    hub.requests.length = 0;
    await client.baseModels.fetch('org/other');
    await untilServed(client, 'org/other');
    expect(hub.storageRequests().map(({ range }) => range)).toEqual([expect.stringMatching(RANGE)]);

    // So does one that was killed with the service.
    hub.add('org/third', own.files.folder);
    hub.bytesPerSecond = 15_000;
    await client.baseModels.fetch('org/third');
    await expect
      .poll(async () => (await statusOf('org/third'))?.done_bytes ?? 0, { interval: 50 })
      .toBeGreaterThan(60_000);
    process.kill(service.pid, 'SIGKILL');
  } finally {
    await service.stop();
  }

  hub.bytesPerSecond = null;
  hub.requests.length = 0;
  const again = await smallService({
    dataDirectory: service.dataDirectory,
    environment: { ...environment, TRAINYARD_API_KEY: service.apiKey },
  });
  try {
    const client = new Trainyard({ baseUrl: again.url, apiKey: again.apiKey, maxRetries: 0 });
    await untilServed(client);
    expect((await ask(client, 'local/hub/tiny')).length).toBeGreaterThan(0);
    await untilServed(client, 'org/third');
    expect(await ask(client, 'org/third')).toBe('length');
    expect(hub.storageRequests().map(({ range }) => range)).toEqual([expect.stringMatching(RANGE)]);
  } finally {
    await again.close();
  }
}, 300_000);

test('a service that other machines reach fetches nothing by default', async () => {
  const environment = { ...own.environment(), TRAINYARD_ALLOWED_HOSTS: 'api.example' };
  const service = await smallService({ environment });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const refusal = await refusalOf(client.models.register({ project: 'p', name: 'n', base_model: HUB_MODEL }));
    expect(refusal.status).toBe(404);
    expect(refusal.message).toMatch(/`--hub` is off: pass `--hub on`, or start the service with `--model`$/);
  } finally {
    await service.close();
  }
}, 120_000);

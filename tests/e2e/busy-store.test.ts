import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

import { afterAll, beforeAll, expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

/** Another process has the write lock of the database for longer than a request waits. */

let service: OwnService;
let client: Trainyard;
let base: string;

beforeAll(async () => {
  service = await smallService();
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  base = (await client.servedModels.list()).data[0]!.id;
});

afterAll(async () => {
  await service.close();
});

it('refuses writes, answers reads, and the running job continues when the lock is released', async () => {
  const model = await client.models.register({ project: 'busy', name: 'waits', base_model: base });
  const groups = [await scoredGroup(client, 'waits', { maxTokens: 4 })];
  const job = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: groups,
    experimental_config: { learning_rate: 1e-4 },
  });
  for await (const event of client.trainingJobs.watch(job.id)) if (event.type === 'training_started') break;

  const other = new DatabaseSync(join(service.dataDirectory, 'trainyard.sqlite'), { timeout: 60_000 });
  other.exec('begin immediate');
  const refused = fetch(`${service.url}/preview/models`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ project: 'busy', name: 'late', base_model: base }),
  });
  // Each of these would wait for the lock's end if anything blocked the event loop.
  let isRefused = false;
  void refused.finally(() => (isRefused = true));
  const reported = new Set<string>();
  while (!isRefused) {
    const health = await fetch(`${service.url}/health`);
    expect(health.status).toBe(200);
    const text = await health.text();
    expect(text).not.toContain(service.dataDirectory);
    if (text.includes('degraded')) reported.add(text.replaceAll(/\d+/g, 'N'));
  }
  const response = await refused;
  expect([response.status, response.headers.get('retry-after')]).toEqual([503, '1']);
  const body = await response.text();
  expect(JSON.parse(body).error).toMatchObject({ code: 'store.busy' });
  expect(body).not.toContain(service.dataDirectory);
  // Reported while it lasted.
  expect([...reported].join()).toContain('another process has held the lock of the database for N s');
  // In either case the job has not failed.
  other.exec('rollback');
  other.close();

  expect(await client.trainingJobs.gradientSteps(job.id)).toHaveLength(1);
  const { data } = await client.trainingJobs.events(job.id);
  expect(data.map((event) => event.type).filter((type) => type !== 'warning')).toEqual([
    'training_started',
    'gradient_step',
    'training_ended',
  ]);
}, 240_000);

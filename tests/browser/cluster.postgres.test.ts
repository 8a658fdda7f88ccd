/**
 * The dashboard of a service in several processes, in a real browser: missing parts are reported, and appear
 * once available.
 */
import assert from 'node:assert/strict';

import { Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { hasBrowser, openBrowser } from '../support/browser.ts';
import { scoredGroup } from '../support/groups.ts';
import { type ServicePart, ServiceParts } from '../support/service-parts.ts';

const BASE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const WAIT = { timeout: 60_000 };
const SECRET = 'a secret for these tests, which is long enough';

describe.skipIf(!hasBrowser())('the dashboard of several processes', () => {
  let cluster: PostgresCluster;
  let parts: ServiceParts;
  let api: OwnService;
  let client: Trainyard;
  let browser: Browser;
  let page: Page;
  const complaints: string[] = [];
  beforeAll(async () => {
    const programs = process.env['TRAINYARD_TEST_POSTGRES'];
    assert(programs !== undefined, 'the project `postgres` starts the server');
    cluster = await PostgresCluster.start(programs);
    parts = new ServiceParts({ database: await cluster.createSchema(), secret: SECRET });
    api = await parts.api();
    client = new Trainyard({ baseUrl: api.url, apiKey: api.apiKey });
    browser = await openBrowser();
    page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(/^Dashboard (\S+)$/m.exec(api.output())![1]!);
  }, 200_000);
  afterAll(async () => {
    await browser?.close();
    await parts?.close();
    await cluster?.stop();
  });

  const open = (name: string) => page.getByRole('link', { name, exact: true }).click();
  const fact = (name: string) => page.locator('dt', { hasText: new RegExp(`^${name}$`) }).locator('+ dd');
  const text = (name: string) => fact(name).first().textContent();

  test('missing engines and trainers are reported', async () => {
    await open('System');
    await expect.poll(() => text('Sampling'), WAIT).toContain('no engine is available');
    expect(await text('Training')).toContain('no trainer is running');
    expect(await text('Store')).toContain('healthy');
  });

  let engines: ServicePart[];
  test('new engines appear with their software, and the cached share of prompts is shown', async () => {
    engines = [await parts.part('engine'), await parts.part('engine')];
    const rows = page.getByRole('table', { name: 'engines' }).locator('tbody tr');
    await expect.poll(() => rows.count(), WAIT).toBe(2);
    expect(await page.getByRole('region', { name: BASE }).locator('header').textContent()).toBe(`${BASE}2 engines`);
    for (const row of await rows.allTextContents()) expect(row).toMatch(/^http:\/\/127\.0\.0\.1:\d+up0\.1\.0/);
    await client.chat.completions.create({
      model: BASE,
      messages: [{ role: 'user', content: 'Say something.' }],
      n: 4,
      max_tokens: 4,
    });
    await expect.poll(() => text('Prefix hits'), WAIT).toMatch(/^[1-9]\d? %$/);
    const { sampling } = await client.hosts.read();
    const { prefix_hit_tokens: hits, prefix_query_tokens: queries, prompt_tokens: prompt } = sampling.hosts[0]!;
    // The admin of the service's own entity sees the load.
    expect(queries).toBe(4 * prompt!);
    expect(hits).toBeLessThan(queries!);
  });

  test('a job shows the reason it waits, and is trained once there is a trainer', async () => {
    const model = await client.models.register({ project: 'parts', name: 'agent', base_model: BASE });
    const groups = await Promise.all(
      [1, 2].map((seed) => scoredGroup(client, 'agent', { seed, prompt: `Say ${seed}.` })),
    );
    const job = await client.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: { learning_rate: 1e-3, gradient_steps: 1 },
    });
    await open('Jobs');
    const row = page.getByRole('row', { name: job.id.slice(0, 8) });
    await expect.poll(() => row.textContent(), WAIT).toContain(`No running trainer has base model`);
    await parts.part('trainer');
    await client.trainingJobs.gradientSteps(job.id);
    await expect.poll(() => row.textContent(), WAIT).toContain('succeeded');
    await open('System');
    await expect.poll(() => text('Training'), WAIT).toContain('healthy');
    await open('Usage');
    // One key asked for all of it: requests, prompt and completion, then jobs, trained and context.
    const keys = page.getByRole('table', { name: 'By key' }).locator('tbody tr');
    const cells = async () => (await keys.locator('td').allTextContents()).slice(-6);
    const isCount = expect.stringMatching(/^[1-9]/);
    await expect.poll(cells, WAIT).toEqual([isCount, isCount, isCount, '1', isCount, isCount]);
    expect(await keys.count()).toBe(1);
  }, 200_000);

  test('a killed engine is shown as down with the reason, and the other one continues', async () => {
    await open('System');
    await engines[0]!.end('SIGKILL');
    const rows = page.getByRole('table', { name: 'engines' }).locator('tbody tr');
    const ofKilled = rows.filter({ hasText: new URL(engines[0]!.engineUrl!).host });
    await expect.poll(() => ofKilled.textContent(), WAIT).toContain('down');
    expect(await rows.filter({ hasText: new URL(engines[1]!.engineUrl!).host }).textContent()).toContain('up');
    // Its lease has expired.
    await expect.poll(() => rows.count(), WAIT).toBe(1);
    expect(await text('Sampling')).toContain('healthy');
    expect(complaints).toEqual([]);
  }, 200_000);
});

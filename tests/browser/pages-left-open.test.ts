/** Open pages of the dashboard while the session ends, and the service stops and comes back. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { hasBrowser } from '../support/browser.ts';
import { SeededDashboard } from '../support/seeded-dashboard.ts';

describe.skipIf(!hasBrowser())('a page that stays open', () => {
  let dashboard: SeededDashboard;
  beforeAll(async () => {
    dashboard = await SeededDashboard.open();
  });
  afterAll(async () => await dashboard?.close());

  const jobId = async () =>
    (await dashboard.api<{ data: { id: string }[] }>('GET', '/preview/training-jobs?order=desc&limit=1')).data[0]!.id;
  const pages = async () => {
    const model = `/models/${dashboard.modelId}`;
    return ['/models', `${model}/rollouts`, `/jobs/${await jobId()}`, '/chat', '/keys'];
  };
  const away = (page: Page) => page.getByText('The service does not answer.').first();

  test('goes to the sign-in page as soon as its key is revoked', async () => {
    const key = await dashboard.api<{ id: string; secret: string }>('POST', '/keys', {
      name: 'viewer',
      scopes: ['admin'],
    });
    const open = await Promise.all((await pages()).map(async (path) => await dashboard.signedIn(path, {}, key.secret)));
    for (const page of open) await page.getByRole('heading', { level: 1 }).waitFor();
    await dashboard.api('DELETE', `/keys/${key.id}`);
    for (const page of open) {
      await page.getByText('Sign in to see what your models learn.').waitFor();
      expect(await page.getByRole('navigation').count()).toBe(0);
    }
    for (const page of open) await page.context().close();
  });

  test('reports that the service is away, keeps users signed in, and shows the changes once it is back', async () => {
    const open = await Promise.all((await pages()).map(async (path) => await dashboard.signedIn(path)));
    const [models, , job] = open as [Page, Page, Page];
    await job.getByText('paused after').waitFor();
    const complaints: string[] = [];
    models.on('pageerror', ({ message }) => complaints.push(message));
    await dashboard.stopService();
    for (const page of open) await away(page).waitFor();
    await models.getByText('short-answers').waitFor();
    await models.getByRole('button', { name: 'Sign out' }).click();
    await models.getByText('The service does not answer: is it running?').waitFor();
    expect(complaints).toEqual([]);
    await dashboard.startService();
    // Before the pages have reconnected.
    await dashboard.api('POST', `/preview/training-jobs/${await jobId()}/cancel`);
    for (const page of open) await away(page).waitFor({ state: 'detached' });
    await job.getByText('cancelled').first().waitFor();
    for (const page of open) await page.context().close();
  });

  test('distinguishes a service that refuses for now from a proxy that cannot reach it', async () => {
    const page = await dashboard.signedIn('/models');
    const answer = async (paths: RegExp, status: number, headers: Record<string, string>) => {
      await page.route(paths, async (route) => await route.fulfill({ status, headers, json: {} }));
      await page.getByRole('link', { name: 'Jobs' }).click();
      await page.getByRole('alert').waitFor();
    };
    await answer(/\/preview\/training-/, 503, { 'x-request-id': 'of the service', 'x-should-retry': 'false' });
    expect(await away(page).count()).toBe(0);
    await page.getByRole('link', { name: 'Models' }).first().click();
    await page.unroute(/\/preview\/training-/);
    await page.goto(`${dashboard.origin}/models`);
    await page.getByText('short-answers').first().waitFor();
    // Any answer of the service would take the notice away again.
    await answer(/\/v1\//, 502, { 'x-should-retry': 'false' });
    await away(page).waitFor();
    await page.context().close();
  });

  test('shows the data of the key that signed in in another tab, and nothing from before', async () => {
    const key = { name: 'of others', scopes: ['admin'], entity: 'others' };
    const { secret } = await dashboard.api<{ secret: string }>('POST', '/keys', key);
    const page = await dashboard.signedIn('/models');
    await page.getByText('short-answers').waitFor();
    const tab = await page.context().newPage();
    await tab.goto(`${dashboard.origin}/keys`);
    await tab.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('Sign in to see what your models learn.').waitFor();
    await tab.getByLabel('API key').fill(secret);
    await tab.keyboard.press('Enter');
    await page.getByText('others · of others').waitFor();
    await page.getByText('No models yet').waitFor();
    expect(await page.getByText('short-answers').count()).toBe(0);
    await page.context().close();
  });

  test('without a shared worker it holds no connection while hidden, and continues when visible again', async () => {
    const page = await dashboard.signedIn('/models');
    await page.addInitScript('delete globalThis.SharedWorker');
    await page.reload();
    await page.getByText('short-answers').first().waitFor();
    const see = async (state: 'hidden' | 'visible') =>
      await page.evaluate(
        `Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => '${state}' });
         document.dispatchEvent(new Event('visibilitychange'))`,
      );
    let isStreaming = true;
    page.on('requestfailed', (request) => {
      if (request.url().endsWith('/preview/events')) isStreaming = false;
    });
    await see('hidden');
    await expect.poll(() => isStreaming).toBe(false);
    await dashboard.api('POST', '/preview/models', {
      project: 'demo',
      name: 'made meanwhile',
      base_model: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    });
    expect(await page.getByText('made meanwhile').count()).toBe(0);
    await see('visible');
    await page.getByText('made meanwhile').waitFor();
    await page.context().close();
  });
});

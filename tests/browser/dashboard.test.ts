/** The dashboard of a real service in a real browser: every page of models, jobs, usage, keys and system, by mouse, by keyboard, wide, narrow, light and dark. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { axeViolations } from '../support/axe-violations.ts';
import { hasBrowser, openBrowser } from '../support/browser.ts';
import { seedRun } from '../support/seeded-run.ts';
import { smallService } from '../support/small-service.ts';

const NUM_STEPS = 12;
const LONG = 'n'.repeat(128);

describe.skipIf(!hasBrowser())('the dashboard', () => {
  let service: OwnService;
  let browser: Browser;
  let origin: string;
  let modelId: string;
  let longId: string;

  beforeAll(async () => {
    const dataDirectory = mkdtempSync(join(tmpdir(), 'trainyard-dashboard-'));
    const run = { dataDirectory, numSteps: NUM_STEPS, numGroups: 3, groupSize: 4 };
    modelId = await seedRun({ ...run, name: 'short-answers', hasPausedJob: true });
    await seedRun({ ...run, name: 'other', seed: 2 });
    longId = await seedRun({ ...run, name: LONG, project: LONG, seed: 3, numSteps: 1 });
    [service, browser] = await Promise.all([smallService({ dataDirectory }), openBrowser()]);
    origin = new URL(service.url).origin;
  });
  afterAll(async () => {
    await browser?.close();
    await service?.close();
  });

  const api = async (method: string, path: string, body?: object) =>
    await fetch(service.url + path, {
      method,
      headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });

  /** A new browser context, signed in by a link. @returns also the complaints of its pages */
  async function signedIn(options: Parameters<Browser['newContext']>[0] = {}) {
    const { path } = (await (await api('POST', '/session-links')).json()) as { path: string };
    const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
    const complaints = complaintsOf(context);
    const page = await context.newPage();
    await page.goto(origin + path);
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    return { context, page, complaints };
  }

  /** Console output, and errors of pages; a request that ends with its page does not count. */
  function complaintsOf(context: BrowserContext): string[] {
    const complaints: string[] = [];
    context.on('console', (message) => {
      // Chromium gives advice about forms.
      if (!message.text().includes('Password forms')) complaints.push(`${message.type()}: ${message.text()}`);
    });
    context.on('weberror', (error) => complaints.push(error.error().message));
    return complaints;
  }

  const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { level: 1, name }).waitFor();

  // `long-run.test.ts` has all pages with their data, in both themes and at three widths.
  test.each([
    ['light', 1280],
    ['dark', 390],
  ] as const)(
    'the empty usage in %s at %i px fits the window and has no violation of axe',
    async (colorScheme, width) => {
      const { context, page, complaints } = await signedIn({ colorScheme, viewport: { width, height: 860 } });
      await page.goto(`${origin}/usage`);
      await page.getByText('No usage in these days').waitFor();
      expect(await page.evaluate('document.documentElement.scrollWidth - window.innerWidth')).toBeLessThanOrEqual(0);
      expect(await axeViolations(page)).toEqual([]);
      expect(complaints).toEqual([]);
      await context.close();
    },
  );

  test('long names without break points wrap: no page is wider than a narrow window', async () => {
    const { context, page } = await signedIn({ viewport: { width: 360, height: 860 } });
    await api('POST', '/keys', { name: LONG, scopes: ['inference'] });
    const model = `/models/${longId}`;
    const { data: jobs } = (await (await api('GET', `/preview/models/${longId}/training-jobs`)).json()) as {
      data: { id: string }[];
    };
    const shown: [path: string, content: string][] = [
      ['/models', LONG],
      [model, 'Best rollout'],
      [`${model}/charts`, 'Log-probability gap'],
      [`${model}/rollouts`, 'Group 1'],
      [`${model}/checkpoints`, 'latest'],
      [`${model}/jobs`, 'succeeded'],
      [`/jobs/${jobs[0]!.id}`, LONG],
      ['/keys', LONG],
      ['/chat', 'Ask something'],
    ];
    for (const [path, content] of shown) {
      await page.goto(origin + path);
      await page.getByText(content).filter({ visible: true }).first().waitFor();
      const overflow = await page.evaluate('document.documentElement.scrollWidth - window.innerWidth');
      expect.soft(overflow, path).toBeLessThanOrEqual(0);
      const cells = await page.locator('.data-table td').evaluateAll((all) => all.map((cell) => cell.clientWidth));
      expect.soft(Math.max(0, ...cells), `a cell of ${path}`).toBeLessThan(360);
    }
    await context.close();
  });

  test('an address of a missing page reports so, with any text as its id', async () => {
    const { context, page, complaints } = await signedIn();
    for (const kind of ['models', 'jobs', 'rollouts']) {
      for (const id of ['%25', '%2525', '%2F', 'a%20b']) {
        await page.goto(`${origin}/${kind}/${id}`);
        await page.getByText('does not exist').first().waitFor();
      }
    }
    expect(complaints.filter((line) => !line.includes('the server responded with a status of 404'))).toEqual([]);
    await context.close();
  });

  test('a link signs in once, its code stays in no address, and signing out ends the session in every tab', async () => {
    const { path } = (await (await api('POST', '/session-links')).json()) as { path: string };
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(origin + path);
    await heading(page, 'Models');
    expect(page.url()).toBe(`${origin}/models`);
    expect(await page.evaluate('document.cookie')).toBe('');
    await page.goBack().catch(() => null);
    expect(page.url()).not.toContain(path.split('#')[1]);

    const stranger = await (await browser.newContext()).newPage();
    await stranger.goto(origin + path);
    await stranger.getByRole('alert').filter({ hasText: 'was already used' }).waitFor();

    await page.goto(`${origin}/models`);
    const second = await context.newPage();
    await second.goto(`${origin}/keys`);
    await heading(second, 'Keys');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await second.goto(`${origin}/keys`);
    await second.getByRole('button', { name: 'Sign in' }).waitFor();
    await context.close();
  });

  test('a page of another port cannot read or write with the session', async () => {
    const { context, page } = await signedIn();
    await page.route('http://localhost:9/*', (route) => route.fulfill({ contentType: 'text/html', body: 'hello' }));
    await page.goto('http://localhost:9/');
    const outcome = await page.evaluate(`fetch('${origin}/v1/session-links', { method: 'POST', credentials: 'include' })
      .then(async (response) => [response.status, (await response.text()).includes('/sign-in#')], () => 'blocked')`);
    expect(JSON.stringify(outcome)).not.toContain('true');
    await context.close();
  });

  test('by keyboard only: sign in with a key, open the keys, create one, revoke it', async () => {
    const context = await browser.newContext();
    const complaints = complaintsOf(context);
    const page = await context.newPage();
    await page.goto(`${origin}/keys`);
    await page.getByLabel('API key').waitFor();
    const press = async (...keys: string[]) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    await press('Tab');
    await page.keyboard.type(service.apiKey);
    await press('Enter');
    await heading(page, 'Keys');
    const focused = () => page.evaluate('document.activeElement.textContent');
    const tabTo = async (text: string) => {
      for (let count = 0; count < 40 && !String(await focused()).startsWith(text); count++) await press('Tab');
      expect(await focused()).toContain(text);
    };
    await tabTo('New key');
    await press('Enter');
    await page.getByRole('dialog', { name: 'New key' }).waitFor();
    await page.keyboard.type('by-keyboard');
    await press('Enter');
    await page.getByRole('dialog', { name: 'The new key' }).waitFor();
    const secret = (await page.getByRole('region', { name: 'Secret' }).textContent()) ?? '';
    expect(secret).toMatch(/^ty-/);
    await press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await page.content()).not.toContain(secret);
    await tabTo('Revoke');
    await press('Enter');
    await page.getByRole('dialog', { name: 'Revoke by-keyboard?' }).waitFor();
    await tabTo('Revoke');
    await press('Enter');
    await page.getByRole('row').getByText('revoked').waitFor();
    expect(complaints.filter((line) => !line.includes('Password forms'))).toEqual([]);
    await context.close();
  });

  test('limits of a key are set at creation, shown, changed, and reported to a client above them', async () => {
    const { context, page, complaints } = await signedIn();
    await page.goto(`${origin}/keys`);
    await page.getByRole('button', { name: 'New key' }).click();
    await page.getByRole('dialog').getByLabel('Name').fill('guest');
    await page.getByText('Limits', { exact: true }).last().click();
    await page.getByLabel('Requests per minute').fill('12000');
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('button', { name: 'Done' }).waitFor();
    const secret = (await page.getByRole('region', { name: 'Secret' }).textContent()) ?? '';
    expect(await page.getByRole('region', { name: 'Shell line' }).textContent()).toBe(
      `export TRAINYARD_API_KEY=${secret}`,
    );
    for (const width of [390, 1024, 1440]) {
      await page.setViewportSize({ width, height: 844 });
      for (const name of ['Copy secret', 'Copy shell line', 'Done']) {
        const { x, width: size } = (await page.getByRole('button', { name }).boundingBox())!;
        const dialog = (await page.getByRole('dialog').boundingBox())!;
        expect([width, name, x > dialog.x && x + size < dialog.x + dialog.width]).toEqual([width, name, true]);
        expect(dialog.x >= 0 && dialog.x + dialog.width <= width).toBe(true);
      }
    }
    await page.getByRole('button', { name: 'Done' }).click();
    const row = page.getByRole('row').filter({ hasText: 'guest' });
    await row.getByText('12,000 requests/min').waitFor();
    await row.getByText('never').waitFor();

    await row.getByRole('button', { name: 'Limits of guest' }).click();
    const dialog = page.getByRole('dialog', { name: 'Limits of guest' });
    expect(await dialog.getByLabel('Requests per minute').inputValue()).toBe('12000');
    expect(await axeViolations(page)).toEqual([]);
    await dialog.getByLabel('Requests per minute').fill('1');
    await dialog.getByLabel('Tokens per minute').fill('5000');
    await dialog.getByRole('button', { name: 'Save limits' }).click();
    await row.getByText('1 requests/min, 5,000 tokens/min').waitFor();

    const chat = async () =>
      await fetch(`${service.url}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 }),
      });
    expect((await chat()).status).toBe(200);
    const refused = await chat();
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([429, true]);

    await row.getByRole('button', { name: 'Limits of guest' }).click();
    for (const label of ['Requests per minute', 'Tokens per minute']) await dialog.getByLabel(label).fill('');
    await dialog.getByRole('button', { name: 'Save limits' }).click();
    await row.getByText('none').waitFor();
    expect((await chat()).status).toBe(200);

    const isUsed = async () => {
      await page.reload();
      await row.getByText('none').waitFor();
      return (await row.getByText('never').count()) === 0 && (await row.locator('time').count()) === 2;
    };
    await expect.poll(isUsed).toBe(true);
    expect(complaints).toEqual([]);
    await context.close();
  });

  test('a chart has a table with the same numbers, a CSV file, and points that link to their rollouts', async () => {
    const { context, page, complaints } = await signedIn();
    await page.goto(`${origin}/models/${modelId}`);
    const { data } = (await (await api('GET', `/preview/models/${modelId}/series?name=train/reward`)).json()) as {
      data: { mean: number[] }[];
    };
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Reward as CSV' }).click();
    const csv = readFileSync(await (await download).path(), 'utf8')
      .trim()
      .split('\n');
    expect(csv[0]).toBe('step,reward,reward low,reward high,val');
    // The reward of a step belongs to its own rollouts: steps 0 to NUM_STEPS - 1 were trained on.
    const cells = csv.slice(1).map((line) => line.split(','));
    expect(cells.map(([step]) => Number(step))).toEqual(Array.from({ length: NUM_STEPS }, (_, step) => step));
    expect(cells.map(([, reward]) => Number(reward))).toEqual(data[0]?.mean);

    // The page of a step has its rollouts, next to a chart of the metric that was chosen.
    const rolloutsOf = async (step: number) => {
      await page.getByRole('region', { name: 'Rewards of this step' }).getByText(`Step ${step} ·`).waitFor();
      expect(await page.getByLabel('Step', { exact: true }).inputValue()).toBe(String(step));
      expect(await page.getByLabel('Split').inputValue()).toBe('train');
      await expect.poll(() => page.getByRole('combobox', { name: 'Over steps' }).inputValue()).toBe('train/reward');
    };
    const chart = page.getByRole('img', { name: /^Reward over steps/ });
    await chart.focus();
    for (const key of ['ArrowLeft', 'ArrowLeft', 'Enter']) await page.keyboard.press(key);
    await rolloutsOf(NUM_STEPS - 2);

    await page.goto(`${origin}/models/${modelId}`);
    await page.getByRole('button', { name: 'Reward as a table' }).click();
    const table = page.getByRole('table', { name: 'Reward' });
    expect(await table.getByRole('row').count()).toBe(NUM_STEPS + 1);
    await table.getByRole('button', { name: '5', exact: true }).click();
    await rolloutsOf(5);
    expect(complaints).toEqual([]);
    await context.close();
  });

  test('another model is added to the chart, smoothed and logarithmic, and the address contains all of that', async () => {
    const { context, page, complaints } = await signedIn();
    await page.goto(`${origin}/models/${modelId}/charts`);
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.getByRole('menuitemcheckbox', { name: 'demo/other' }).click();
    await page.keyboard.press('Escape');
    await page.getByRole('checkbox', { name: 'Logarithmic' }).check();
    await page.getByRole('slider', { name: 'Smooth' }).fill('0.6');
    const reward = page.getByRole('region', { name: 'Reward', exact: true });
    await reward.getByText('other').waitFor();
    const parameters = new URL(page.url()).searchParams;
    expect([parameters.get('log'), parameters.get('smooth'), parameters.getAll('with').length]).toEqual([
      '1',
      '0.6',
      1,
    ]);
    await page.reload();
    await reward.getByText('other').waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  test('charts show a range of steps: by dragging, by keyboard, and reset to all', async () => {
    const { context, page, complaints } = await signedIn();
    await page.goto(`${origin}/models/${modelId}/charts`);
    const reward = page.getByRole('region', { name: 'Reward', exact: true });
    const parts = () => {
      const parameters = new URL(page.url()).searchParams;
      return [parameters.get('from'), parameters.get('to')].map((place) => (place === null ? null : Number(place)));
    };
    const stepsOf = async () => {
      await reward.getByRole('button', { name: 'Reward as a table' }).click();
      const table = reward.getByRole('table');
      await table.getByRole('row').nth(1).waitFor();
      const steps = (await table.getByRole('button').allTextContents()).map(Number);
      await reward.getByRole('button', { name: 'Reward as a table' }).click();
      return steps.toReversed();
    };
    // Every step but the last has rollouts.
    const all = Array.from({ length: NUM_STEPS }, (_, index) => index);
    await expect.poll(stepsOf).toEqual(all);
    const { x, y, width, height } = (await reward.locator('.u-over').boundingBox())!;
    await page.mouse.move(x + width * 0.3, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.8, y + height / 2, { steps: 5 });
    await page.mouse.up();
    await expect.poll(parts).not.toEqual([null, null]);
    const [from, to] = parts() as [number, number];
    expect(from).toBeGreaterThan(1);
    expect(to).toBeLessThan(NUM_STEPS);
    await expect.poll(stepsOf).toEqual(all.filter((step) => step >= from && step <= to));
    expect(await page.getByLabel('From').inputValue()).toBe(String(from));

    await reward.locator('.u-over').dblclick();
    await expect.poll(parts).toEqual([null, null]);
    await expect.poll(stepsOf).toEqual(all);

    await page.getByLabel('From').focus();
    await page.keyboard.type('4');
    await page.keyboard.press('Tab');
    await page.keyboard.type('6');
    await expect.poll(stepsOf).toEqual([4, 5, 6]);
    await page.keyboard.press('Tab');
    while ((await page.evaluate('document.activeElement.textContent')) !== 'Show all') await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await expect.poll(parts).toEqual([null, null]);
    expect(complaints).toEqual([]);
    await context.close();
  });

  test('events update the page: a new model appears, and a resumed job continues', async () => {
    const { context, page } = await signedIn();
    await page.goto(`${origin}/models`);
    await page.getByRole('link', { name: 'short-answers' }).waitFor();
    const body = { project: 'demo', name: 'just-made', base_model: 'HuggingFaceTB/SmolLM2-135M-Instruct' };
    await api('POST', '/preview/models', body);
    await page.getByRole('link', { name: 'just-made' }).waitFor();

    await page.goto(`${origin}/models/${modelId}`);
    await page.getByRole('button', { name: 'Resume' }).click();
    // Its data never existed, which its page reports.
    await page.getByRole('button', { name: 'Resume' }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Jobs', exact: true }).last().click();
    await page.getByText('failed').first().waitFor();
    expect(await page.getByText('paused').count()).toBe(0);
    await context.close();
  });

  test('events before the start of the stream appear once it has started', async () => {
    const { context, page } = await signedIn();
    const isMade = Promise.withResolvers<void>();
    let numHeld = 0;
    // Requests of a shared worker belong to no page.
    await context.addInitScript('delete globalThis.SharedWorker');
    await context.route(/\/events\?/, async (route) => {
      numHeld += 1;
      await isMade.promise;
      await route.continue();
    });
    await page.goto(`${origin}/models`);
    await page.getByRole('link', { name: 'short-answers' }).waitFor();
    await expect.poll(() => numHeld).toBeGreaterThan(0);
    await api('POST', '/preview/models', {
      project: 'demo',
      name: 'made-meanwhile',
      base_model: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    });
    isMade.resolve();
    await page.getByRole('link', { name: 'made-meanwhile' }).waitFor();
    await context.close();
  });

  test('a checkpoint is deleted after a confirmation', async () => {
    const { context, page } = await signedIn();
    await page.goto(`${origin}/models/${modelId}/checkpoints`);
    await page.getByRole('button', { name: 'Delete step 3' }).click();
    await page.getByRole('dialog', { name: 'Delete step 3?' }).getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Delete step 4' }).waitFor();
    await page.getByRole('button', { name: 'Delete step 3' }).waitFor({ state: 'detached' });
    const { data } = (await (await api('GET', `/preview/models/${modelId}/checkpoints?limit=100`)).json()) as {
      data: { step: number }[];
    };
    expect(data.map(({ step }) => step)).not.toContain(3);
    await context.close();
  });

  test('its files are cached forever and its page is not; unknown API paths stay JSON, and curl gets text', async () => {
    const page = await fetch(`${origin}/models/anything/charts`, { headers: { accept: 'text/html' } });
    expect(page.headers.get('cache-control')).toBe('no-store');
    expect(page.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; script-src 'self'; style-src 'self' 'nonce-/,
    );
    const html = await page.text();
    expect(html).not.toMatch(/<script>|<style|https?:\/\/(?!www\.w3\.org)/);
    const [script = ''] = /\/assets\/[\w-]+\.js/.exec(html) ?? [];
    const asset = await fetch(origin + script);
    expect(asset.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(asset.headers.get('content-encoding')).toBe('gzip');
    expect((await fetch(`${origin}/assets/none.js`)).status).toBe(404);
    const unknown = await fetch(`${origin}/v1/unknown`, { headers: { accept: 'text/html' } });
    expect([unknown.status, unknown.headers.get('content-type')]).toEqual([404, 'application/json; charset=utf-8']);
    expect((await fetch(`${origin}/`)).headers.get('content-type')).toBe('text/plain; charset=utf-8');
  });
});

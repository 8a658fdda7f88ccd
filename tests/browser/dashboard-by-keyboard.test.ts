/** The dashboard for users without a mouse, with their own colours, or over plain HTTP. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { hasBrowser } from '../support/browser.ts';
import { JudgedPage } from '../support/judged-page.ts';
import { SeededDashboard } from '../support/seeded-dashboard.ts';

describe.skipIf(!hasBrowser())('the dashboard', () => {
  let dashboard: SeededDashboard;
  beforeAll(async () => {
    dashboard = await SeededDashboard.open();
  });
  afterAll(async () => await dashboard?.close());

  const model = (tab: string) => `/models/${dashboard.modelId}/${tab}`;
  /** Name of the focused element, or the id of one without a name. */
  const focused = async (page: Page) =>
    await page.evaluate(
      `(({ activeElement: it }) => it.getAttribute('aria-label') ?? (it.tagName === 'BUTTON' ? it.textContent : it.id))(document)`,
    );
  const press = async (page: Page, name: string | RegExp) => {
    const button = page.getByRole('button', { name }).first();
    await expect.poll(() => button.isEnabled()).toBe(true);
    await button.focus();
    await page.keyboard.press('Enter');
  };

  test.each([
    ['/keys', 'New key'],
    ['/keys', 'Limits of admin'],
    ['/keys', 'Revoke admin'],
  ])('%s: closing a dialog returns the focus to "%s"', async (path, name) => {
    const page = await dashboard.signedIn(path);
    await press(page, name);
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await expect.poll(() => focused(page)).toBe(name);
    await page.context().close();
  });

  test('if a dialog removes the element that opened it, the focus goes to the page', async () => {
    const page = await dashboard.signedIn(model('checkpoints'));
    await press(page, 'Delete step 3');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).press('Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await expect.poll(() => focused(page)).toBe('main');
    await page.context().close();
  });

  test('a busy button keeps the focus and acts once', async () => {
    const page = await dashboard.signedIn('/jobs');
    await page.getByRole('cell', { name: 'paused', exact: true }).waitFor();
    await page.getByRole('table').getByRole('link').first().click();
    await page.getByRole('button', { name: 'Resume' }).waitFor();
    let numAsked = 0;
    await page.route(/\/resume$/, async (route) => {
      numAsked += 1;
      await new Promise((resolve) => setTimeout(resolve, 300));
      await route.fulfill({
        status: 409,
        json: { error: { message: 'It has ended', type: 'conflict', code: null, param: null } },
      });
    });
    await press(page, 'Resume');
    expect(await page.getByRole('button', { name: 'Resume' }).getAttribute('aria-disabled')).toBe('true');
    await page.keyboard.press('Enter');
    await page.getByText('It has ended').waitFor();
    expect(await focused(page)).toBe('Resume');
    expect(numAsked).toBe(1);
    await page.context().close();
  });

  test.each([
    ['the groups', 'step=2', 'step=4&split=train'],
    ['the table', 'view=all&step=2', 'view=all&step=4'],
  ])('passing the step input of %s with Tab changes nothing, unless it was edited', async (_view, before, after) => {
    const page = await dashboard.signedIn(`${model('rollouts')}?${before}`);
    const addresses: string[] = [];
    page.on('framenavigated', () => addresses.push(new URL(page.url()).search));
    const step = page.getByLabel('Step', { exact: true });
    await step.focus();
    await page.keyboard.press('Tab');
    await step.fill('4');
    await page.keyboard.press('Tab');
    await expect.poll(() => addresses).toEqual([`?${after}`]);
    await page.context().close();
  });

  test.each([
    ['rollouts', /\/trajectories\?/],
    ['rollouts?view=all', /\/trajectories\?/],
    ['rollouts?text=a', /\/trajectories\?/],
    ['checkpoints', /\/checkpoints\?/],
    ['jobs', /\/training-jobs\?/],
  ])('%s: a refused page of the list is requested once, and the error is shown', async (tab, pattern) => {
    const page = await dashboard.signedIn('/models');
    let numAsked = 0;
    await page.route(pattern, async (route) => {
      if (new URL(route.request().url()).searchParams.has('after')) {
        numAsked += 1;
        const error = { message: 'The model is gone', type: 'not_found', code: null, param: null };
        return await route.fulfill({ status: 404, json: { error } });
      }
      const response = await route.fetch();
      return await route.fulfill({ response, json: { ...((await response.json()) as object), has_more: true } });
    });
    await page.goto(dashboard.origin + model(tab));
    await page.getByRole('alert').getByText('The model is gone').waitFor();
    // Loaded data stays visible.
    await expect.poll(() => page.getByRole('main').innerText()).toMatch(/trained|latest|succeeded|mean reward/);
    // At most once more, if the stream of events starts while the page loads.
    expect(numAsked).toBeLessThanOrEqual(2);
    const before = numAsked;
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(numAsked).toBe(before);
    await page.context().close();
  });

  test('a chart can be compared with any model, beyond the first page of models too', async () => {
    const page = await dashboard.signedIn('/models');
    await page.route(/\/preview\/models\?/, async (route) => {
      const after = new URL(route.request().url()).searchParams.get('after');
      const list = await dashboard.api<{ data: { id: string }[] }>('GET', '/preview/models');
      const like = (name: string) => ({ ...list.data[0], id: name, name, project: 'demo' });
      const data =
        after === null
          ? [...list.data, ...Array.from({ length: 60 }, (_, index) => like(`model ${index}`))]
          : [like('an older one')];
      const lastId = data.at(-1)?.id ?? null;
      return await route.fulfill({ json: { ...list, data, last_id: lastId, has_more: after === null } });
    });
    await page.goto(dashboard.origin + model('charts'));
    await press(page, /^Compare/);
    const { y, height } = (await page.getByRole('menu').boundingBox())!;
    expect(y + height, 'nothing extends beyond the window').toBeLessThanOrEqual(page.viewportSize()!.height);
    await page.getByRole('menuitem', { name: 'More models' }).press('Enter');
    await page.getByRole('menuitemcheckbox', { name: 'demo/an older one' }).waitFor();
    expect(await page.getByRole('menuitem', { name: 'More models' }).count()).toBe(0);
    await page.context().close();
  });

  test('a page over plain HTTP can copy too, and a failure is shown', async () => {
    const page = await dashboard.signedIn('/models', { permissions: ['clipboard-read'] });
    const complaints: string[] = [];
    page.on('pageerror', ({ message }) => complaints.push(message));
    await page.addInitScript(`Object.defineProperty(Navigator.prototype, 'clipboard', { get: () => undefined });
      document.addEventListener('copy', (event) => { window.copied = event.clipboardData.getData('text/plain'); });`);
    await page.goto(`${dashboard.origin}/chat`);
    await press(page, 'Copy as code');
    await press(page, 'Copy code');
    await page.getByText('Copied', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Copy code' }).waitFor();
    await page.evaluate('document.execCommand = () => false');
    await press(page, 'Copy code');
    await page.getByText('Copy failed').waitFor();
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a key ends with the chosen day in the browser's time zone; a day after the year 9999 creates no key", async () => {
    const page = await dashboard.signedIn('/keys', { timezoneId: 'America/Los_Angeles' });
    const make = async (name: string, until: string) => {
      await press(page, 'New key');
      await page.getByRole('dialog').getByLabel('Name').fill(name);
      await page.getByLabel('Valid until').fill(until);
      await press(page, 'Create key');
    };
    await make('for a while', '2037-01-31');
    await press(page, 'Done');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByText('until 2037-01-31').waitFor();
    await make('for ever and a day', '12037-01-31');
    const { data } = await dashboard.api<{ data: { name: string }[] }>('GET', '/keys');
    expect(data.map(({ name }) => name)).not.toContain('for ever and a day');
    expect(await page.getByRole('dialog', { name: 'New key' }).isVisible()).toBe(true);
    const judged = new JudgedPage(page, dashboard.origin);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await judged.faults({ last: 'narrow' })).toEqual([]);
    }
    await page.context().close();
  });

  test('forced colours keep bars and selections visible', async () => {
    const page = await dashboard.signedIn(model('rollouts'), { forcedColors: 'active' });
    const styleOf = async (selector: string, property: string) =>
      await page
        .locator(selector)
        .first()
        .evaluate(
          (element, name) => element.ownerDocument.defaultView!.getComputedStyle(element).getPropertyValue(name),
          property,
        );
    const ground = await styleOf('body', 'background-color');
    expect(await styleOf('.reward-fill', 'background-color')).not.toBe(ground);
    expect(await styleOf('.tabs [aria-current]', 'outline-style')).toBe('solid');
    expect(await styleOf('.button[aria-pressed=true]', 'outline-style')).toBe('solid');
    await page.goto(dashboard.origin + model('checkpoints'));
    await press(page, /^Export step/);
    await page.keyboard.press('ArrowDown');
    await expect.poll(() => styleOf('.menu [data-highlighted]', 'outline-style')).toBe('solid');
    await page.context().close();
  });
});

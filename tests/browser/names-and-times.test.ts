/** Pages of the dashboard with data of others: a service time on another day, and names that reverse text. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { hasBrowser } from '../support/browser.ts';
import { SeededDashboard } from '../support/seeded-dashboard.ts';

describe.skipIf(!hasBrowser())('the dashboard', () => {
  let dashboard: SeededDashboard;
  beforeAll(async () => {
    dashboard = await SeededDashboard.open();
  });
  afterAll(async () => await dashboard?.close());

  test.each([-1, 1])("shows ages by the service's clock if the local one is %i day off", async (days) => {
    const page = await dashboard.signedIn('/models');
    await page.addInitScript(
      `const now = Date.now.bind(Date); Date.now = () => now() + ${days} * 86_400_000;
       const Own = Date; globalThis.Date = new Proxy(Own, { construct: (_, given) => given.length > 0 ? new Own(...given) : new Own(Date.now()) })`,
    );
    const name = `made-just-now-${days}`.replaceAll('-1', 'x');
    await dashboard.api('POST', '/preview/models', {
      project: 'demo',
      name,
      base_model: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    });
    await page.goto(`${dashboard.origin}/models`);
    await page.getByText(name).waitFor();
    const ages = await page.locator('time').allTextContents();
    expect(ages.length).toBeGreaterThan(1);
    expect(ages.filter((age) => !/^(now|\d+ s ago|\d+ min ago)$/.test(age))).toEqual([]);
    // Something must have been created before this test, or the ages mean nothing.
    await expect
      .poll(async () => (await page.locator('time').allTextContents()).some((age) => age !== 'now'))
      .toBe(true);
    await page.context().close();
  });

  test('shows direction marks in names as code points, never as the marks themselves', async () => {
    const mark = '\u202e';
    const name = `safe${mark}gpj.exe\u200f`;
    const shown = 'safe\\u202egpj.exe\\u200f';
    const { id } = await dashboard.api<{ id: string }>('POST', '/preview/models', {
      project: `demo${mark}`,
      name,
      base_model: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    });
    const key = await dashboard.api<{ secret: string }>('POST', '/keys', { name, scopes: ['admin'] });
    const page = await dashboard.signedIn('/models', {}, key.secret);
    /** Checks all text, visible and for screen readers, once `text` is there. */
    const looks = async (text: string | RegExp) => {
      await page.getByText(text).first().waitFor();
      const texts = await page.evaluate(
        `[document.title, document.body.innerText,
          ...[...document.querySelectorAll('[aria-label], [title]')].flatMap((one) => [one.ariaLabel, one.title])].join()`,
      );
      expect(texts).toContain(shown);
      expect(texts).not.toMatch(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/);
    };
    for (const [path, text] of [
      ['/models', 'short-answers'],
      [`/models/${id}`, 'No reward yet'],
      [`/models/${id}/charts`, 'trainyard sft'],
      [`/models/${id}/checkpoints`, 'Export'],
      ['/keys', /^Revoke$/],
      ['/chat', 'Ask something'],
    ] as const) {
      await page.goto(dashboard.origin + path);
      await looks(text);
    }
    await page.goto(`${dashboard.origin}/models/${id}`);
    await page.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('dialog').getByText(shown).waitFor();
    await looks(`Delete ${shown}?`);
    await page.context().close();
  });
});

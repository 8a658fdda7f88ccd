/** Every page of the service in a real browser: correct appearance and function, with an empty console. */
import { OPERATIONS } from '@trainyard/protocol';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { hasBrowser, openBrowser } from '../support/browser.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const PAGES = OPERATIONS.filter(({ answer }) => 'mediaType' in answer && answer.mediaType === 'text/html').flatMap(
  ({ paths }) => paths,
);

describe.skipIf(!hasBrowser())('in Chromium', () => {
  let service: ScriptedServiceProcess;
  let browser: Browser;
  beforeAll(async () => {
    [service, browser] = await Promise.all([scriptedService(), openBrowser()]);
  });
  afterAll(async () => {
    await browser?.close();
    await service?.close();
  });

  /** Opens a page of the service. @returns it, with all its complaints and requests */
  async function open(path: string, colorScheme: 'light' | 'dark' = 'light') {
    const page = await browser.newPage({ colorScheme });
    const complaints: string[] = [];
    const requested: string[] = [];
    page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('request', (request) => requested.push(request.url()));
    page.on('requestfailed', (request) => complaints.push(`${request.url()}: ${request.failure()?.errorText}`));
    const url = new URL(path, service.url).href;
    const response = await page.goto(url, { waitUntil: 'networkidle' });
    expect(response?.status()).toBe(200);
    return { page, url, complaints, requested: requested.filter((address) => !address.startsWith('data:')) };
  }

  const styleOf = (page: Page, selector: string, property: string) =>
    page
      .locator(selector)
      .first()
      .evaluate(
        (element, name) => element.ownerDocument.defaultView!.getComputedStyle(element).getPropertyValue(name),
        property,
      );

  test('there are pages', () => expect(PAGES).toEqual(['/', '/docs']));

  test.each(PAGES.flatMap((path) => [[path, 'light'] as const, [path, 'dark'] as const]))(
    '%s (%s) has its style, loads nothing else and leaves the console empty',
    async (path, colorScheme) => {
      const { page, url, complaints, requested } = await open(path, colorScheme);
      expect(await styleOf(page, 'body', 'background-color')).toBe(
        colorScheme === 'light' ? 'rgb(255, 255, 255)' : 'rgb(17, 17, 19)',
      );
      expect(await styleOf(page, 'body', 'font-family')).toContain('system-ui');
      expect(requested).toEqual([url]);
      expect(complaints).toEqual([]);
      await page.close();
    },
  );

  test('the search of /docs finds operations with all its words, and the key / focuses it', async () => {
    const { page, complaints } = await open('/docs');
    const shown = () => page.locator('section:not([hidden])').count();
    // The network may be idle before a large page is parsed.
    await page.waitForLoadState('load');
    const all = await shown();
    expect(all).toBeGreaterThan(OPERATIONS.length);
    await page.keyboard.press('/');
    expect(await page.locator('input').evaluate((input) => input === input.ownerDocument.activeElement)).toBe(true);
    await page.keyboard.type('chat completions stream');
    await expect.poll(shown, { timeout: 60_000 }).toBeLessThan(all);
    expect(await page.locator('#createChatCompletion').isVisible()).toBe(true);
    expect(await page.locator('#listModels').isVisible()).toBe(false);
    await page.locator('input').fill('');
    await expect.poll(shown, { timeout: 60_000 }).toBe(all);
    expect(complaints).toEqual([]);
    await page.close();
  });

  test('the links of / work', async () => {
    const { page, complaints } = await open('/');
    const links = await page
      .locator('a')
      .evaluateAll((elements) => elements.map((element) => element.getAttribute('href')));
    expect(links).toContain('/docs');
    for (const link of links) expect((await page.request.get(new URL(link!, service.url).href)).status()).toBe(200);
    expect(complaints).toEqual([]);
    await page.close();
  });
});

/**
 * Pages of rollouts and the chat in a real browser, with the real service: mouse, keyboard, small screens,
 * both themes, axe, an empty console.
 */
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';

import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

import { buildDashboard } from '../../packages/dashboard/build.mjs';
import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { hasBrowser, openBrowser } from '../support/browser.ts';
import { JudgedPage } from '../support/judged-page.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const run = promisify(execFile);
/** This environment has openai for Python. */
const hasPython = await hasPythonEnvironment(ROOT, 'art');
/** `npm run bench -- dashboard` scrolls through 100,000. */
const NUM_ROLLOUTS = 20_000;
const WAIT = { timeout: 60_000 };

interface ScrollReport {
  numFrames: number;
  /** ms */
  median: number;
  p95: number;
  numLong: number;
  /** Rows in the page at the end, and the minimum at any time. */
  inPage: number;
  least: number;
}

/** Scrolls like a user who drags the bar: down to the end, 100 rows per frame. Runs in the page. */
const SCROLL_THROUGH = `(async () => {
  const box = document.querySelector('.rollout-scroll');
  const frames = [];
  let numLong = 0;
  new PerformanceObserver((list) => (numLong += list.getEntries().length)).observe({ entryTypes: ['longtask'] });
  const frame = () => new Promise((settle) => requestAnimationFrame(settle));
  let before = await frame();
  let least = Infinity;
  box.scrollTop = 0;
  for (;;) {
    box.scrollTop += 4000;
    const now = await frame();
    frames.push(now - before);
    before = now;
    least = Math.min(least, box.querySelectorAll('.rollout-line').length);
    const isEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 2;
    if (isEnd && document.body.textContent.includes(' in all')) break;
  }
  const sorted = frames.toSorted((first, second) => first - second);
  return {
    numFrames: frames.length,
    median: sorted[Math.floor(sorted.length / 2)],
    p95: sorted[Math.floor(sorted.length * 0.95)],
    numLong,
    inPage: box.querySelectorAll('.rollout-line').length,
    least,
  };
})()`;

describe.skipIf(!hasBrowser())('in Chromium', () => {
  let service: ScriptedServiceProcess;
  let browser: Browser;
  let modelId: string;
  let largeId: string;
  let complaints: string[];
  const contexts: BrowserContext[] = [];
  beforeAll(async () => {
    await buildDashboard();
    const args = ['--dashboard', resolve(ROOT, 'packages/dashboard/dist'), '--rollouts', String(NUM_ROLLOUTS)];
    [service, browser] = await Promise.all([scriptedService(args), openBrowser()]);
    modelId = service.printed('MODEL')!;
    largeId = service.printed('LARGE')!;
  });
  afterEach(async () => {
    await Promise.all(contexts.splice(0).map((context) => context.close()));
    if (complaints.length > 0) throw new Error(`console output: ${complaints.join('\n')}`);
  });
  afterAll(async () => {
    await browser?.close();
    await service?.close();
  });

  /** A page of the service, signed in. */
  async function open(path: string, { isDark = false, width = 1280 } = {}): Promise<Page> {
    const context = await browser.newContext({
      colorScheme: isDark ? 'dark' : 'light',
      viewport: { width, height: 900 },
    });
    contexts.push(context);
    const { origin } = new URL(service.url);
    const signedIn = await context.request.post(`${service.url}/session`, {
      data: { key: service.apiKey },
      headers: { origin },
    });
    expect(signedIn.ok()).toBe(true);
    const page = await context.newPage();
    complaints = [];
    page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(new URL(path, service.url).href);
    return page;
  }

  /** Faults of a page in a state that takes some clicks. */
  async function faultsInBothThemes(page: Page): Promise<string[]> {
    const judged = new JudgedPage(page, service.url);
    const inLight = await judged.faults();
    await page.emulateMedia({ colorScheme: 'dark' });
    return [...inLight, ...(await judged.faults({ last: 'narrow' }))];
  }

  const idsOf = async (query: string) => {
    const answer = await fetch(`${service.url}/preview/models/${modelId}/trajectories?limit=100&${query}`, {
      headers: { authorization: `Bearer ${service.apiKey}` },
    });
    return ((await answer.json()) as { data: { id: string; group: number; reward: number }[] }).data;
  };
  const steps = async () => idsOf('split=train&step=3');

  /** Each page in its complete state. */
  const PAGES: readonly [name: string, path: () => Promise<string>, ready: string][] = [
    ['rollouts of a step', async () => `/models/${modelId}/rollouts`, 'Group 5'],
    [
      'a group',
      async () => `/models/${modelId}/rollouts?step=3&split=train&group=${(await steps())[0]!.id.slice(0, -2)}`,
      'All groups',
    ],
    ['a search', async () => `/models/${modelId}/rollouts?text=anchor`, 'rollouts contain'],
    ['a rollout', async () => `/rollouts/${(await steps())[4]!.id}`, 'Assistant'],
    ['tokens', async () => `/rollouts/${(await steps())[5]!.id}?view=tokens`, 'tokens trained'],
    ['tokens of a dropped one', async () => `/rollouts/${(await steps())[9]!.id}?view=tokens`, 'Reply at position'],
    ['a comparison', async () => `/rollouts/${(await steps())[5]!.id}?view=compare`, 'Differences between step'],
    ['the chat', async () => '/chat', 'Ask something'],
  ];

  test.each(
    PAGES.flatMap(([name, path, ready]) =>
      (['light', 'dark'] as const).map((theme) => [name, theme, path, ready] as const),
    ),
  )('%s fits each window and has no violation of axe (%s)', async (_name, theme, path, ready) => {
    const page = await open(await path(), { isDark: theme === 'dark' });
    await page.getByText(ready).first().waitFor(WAIT);
    const last = theme === 'light' ? 'wide' : 'narrow';
    expect(await new JudgedPage(page, service.url).faults({ last })).toEqual([]);
  });

  test('a bar of the histogram selects the groups with its rewards, and the keyboard leaves a step', async () => {
    const page = await open(`/models/${modelId}/rollouts`);
    const bar = page.getByRole('button', { name: '8 rollouts, reward 0.5' });
    await bar.click();
    await expect.poll(() => page.locator('.reward-chip').count(), WAIT).toBe(8);
    expect(await bar.getAttribute('aria-pressed')).toBe('true');
    expect(await page.getByText('dropped: equal rewards').count()).toBe(1);
    await bar.click();
    await expect.poll(() => page.locator('.reward-chip').count(), WAIT).toBe(48);
    await page.getByLabel('Step', { exact: true }).fill('1');
    await page.keyboard.press('Enter');
    await expect.poll(() => new URL(page.url()).searchParams.get('step'), WAIT).toBe('1');
    await page.getByText('mean reward').waitFor(WAIT);
    const chips = await page.locator('.reward-chip').first().getAttribute('aria-label');
    expect(chips).toBe('Rollout 7 of group 0, reward 0.975, trained');
  });

  test('the rollouts of a group are shown side by side, the best first, with their tool calls', async () => {
    const page = await open(`/models/${modelId}/rollouts?step=3&split=train`);
    await page.getByRole('button', { name: 'Group 0 side by side' }).click();
    const columns = page.locator('.group-column');
    await expect.poll(() => columns.count(), WAIT).toBe(8);
    const rewards = await columns.locator('h3').allTextContents();
    expect(rewards).toEqual(rewards.toSorted((a, b) => Number(b.split(' ')[1]) - Number(a.split(' ')[1])));
    await columns.last().getByText('calls', { exact: true }).waitFor(WAIT);
    await page.getByRole('button', { name: 'All groups' }).click();
    await expect.poll(() => page.locator('.group-row').count(), WAIT).toBe(6);
  });

  test('tokens show the probabilities of sampler and trainer, by the arrow keys alone', async () => {
    const page = await open(`/rollouts/${(await steps())[5]!.id}?view=tokens`);
    await page.getByRole('button', { name: 'sea' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    const facts = page.locator('.token-facts');
    expect(await facts.textContent()).toContain('␣harbour');
    expect(await facts.textContent()).toContain('sampler probability');
    const level = () => page.locator('.token[aria-current=true]').getAttribute('data-level');
    expect(await level()).toBe('2');
    await page.getByLabel('Colour').selectOption('advantage');
    await expect.poll(level, WAIT).toBe('2');
    await page.waitForURL(/colour=advantage/);
    expect(await page.locator('.token[data-context]').first().textContent()).toContain('Say a word.');
    await page.getByText('tokens trained').first().waitFor(WAIT);
    await page.keyboard.press('n');
    expect(await page.locator('.token[aria-current=true][data-trained]').count()).toBe(1);
    expect(await page.getByRole('list', { name: 'From the reward to the loss' }).textContent()).toMatch(
      /group mean.*group spread.*advantage.*× weight/,
    );
    expect(await faultsInBothThemes(page)).toEqual([]);
  });

  test('messages can be searched', async () => {
    const page = await open(`/models/${modelId}/rollouts`);
    await page.getByRole('searchbox').fill('ANCHOR tide sail and');
    await page.keyboard.press('Enter');
    await page.getByText('rollouts contain').waitFor(WAIT);
    expect(await page.locator('.rollout-excerpt').count()).toBeGreaterThan(0);
    expect(await page.locator('.rollout-excerpt').first().textContent()).toContain('anchor tide sail and home');
  });

  test(`${NUM_ROLLOUTS} rollouts scroll smoothly`, async () => {
    const page = await open(`/models/${largeId}/rollouts?view=all`);
    await page.getByText('so far; scroll for more').waitFor(WAIT);
    for (const when of ['while they come', 'after loading all']) {
      const report = await page.evaluate<ScrollReport>(SCROLL_THROUGH);
      console.log(
        `${NUM_ROLLOUTS} rollouts, ${when}: ${report.numFrames} frames, median ${report.median.toFixed(1)} ms, 95 % below ${report.p95.toFixed(1)} ms, ${report.numLong} long tasks`,
      );
      expect(report.inPage).toBeLessThan(120);
      expect(report.least).toBeGreaterThan(0);
    }
    await page.getByText(`${NUM_ROLLOUTS.toLocaleString('en')} in all`).waitFor(WAIT);
    await page.locator('.rollout-line').last().click();
    await expect.poll(() => new URL(page.url()).pathname, WAIT).toMatch(/^\/rollouts\/.+/);
    await page.getByText('Its messages were removed').waitFor(WAIT);
  });

  test('two models answer one input, and alternatives are a click away, also by keyboard', async () => {
    const page = await open('/chat?model=tiny/base');
    await page.getByRole('button', { name: 'Compare with another' }).click();
    await page.getByLabel('Message', { exact: true }).fill('Hi there');
    await page.keyboard.press('Enter');
    const answers = page.locator('.answer');
    await expect.poll(() => answers.count(), WAIT).toBe(2);
    await expect.poll(() => page.getByText('answering').count(), WAIT).toBe(0);
    await expect.poll(() => answers.first().locator('.token-text').textContent(), WAIT).toContain('Hello to you.');
    await answers.first().locator('.token').first().focus();
    await page.keyboard.press('ArrowRight');
    expect(await answers.first().locator('.token-facts').textContent()).toContain('probability');
    const alternatives = answers.first().getByRole('button', { name: /^Continue with/ });
    expect(await alternatives.count()).toBeGreaterThan(2);
    expect(await faultsInBothThemes(page)).toEqual([]);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.getByText('answering').count(), WAIT).toBe(0);
    expect(await answers.first().locator('.token').count()).toBeGreaterThan(1);
    expect(await answers.nth(1).locator('.token-text').textContent()).toContain('Hello to you.');
  });

  test('an endless answer is stopped, and the fields are those of the service', async () => {
    const page = await open('/chat?model=tiny/base');
    await page.getByLabel('max_tokens', { exact: true }).fill('');
    await page.getByLabel('Message', { exact: true }).fill('An essay');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText('Ended: stopped by you.').waitFor(WAIT);
    await service.settled();

    const document = (await (await fetch(new URL('/openapi.json', service.url))).json()) as {
      components: { schemas: { ChatCompletionRequest: { properties: object } } };
    };
    const names = Object.keys(document.components.schemas.ChatCompletionRequest.properties);
    await page.getByText(`All fields (${names.length - 4})`).click();
    const shown = await page.locator('.field-name').allTextContents();
    expect(new Set([...shown, 'messages', 'model', 'stream', 'stream_options'])).toEqual(new Set(names));
    await page.getByLabel('max_tokens', { exact: true }).fill('2');
    await page.getByLabel('Message', { exact: true }).fill('json');
    await page.keyboard.press('Enter');
    await page.getByText('Cut off at the token limit.').waitFor(WAIT);
    await page.getByLabel('top_k').fill('many');
    await page.getByText('top_k should be a number').waitFor(WAIT);
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true);
  });

  test('the request is shown as programs that run unchanged, in a dialog that keeps the focus', async () => {
    const page = await open('/chat?model=tiny/base');
    const system = 'Say "it\'s" \\ or $HOME, `é`🦊';
    await page.getByLabel('System message').fill(system);
    await page.getByLabel('temperature', { exact: true }).fill('0');
    await page.getByLabel('top_k', { exact: true }).fill('4');
    await page.getByLabel('stop', { exact: true }).fill('zzz');
    await page.getByRole('button', { name: 'Copy as code' }).click();
    const options = { cwd: ROOT, env: { ...process.env, TRAINYARD_API_KEY: service.apiKey }, timeout: 100_000 };
    const codeOf = async (language: string) => {
      await page.getByRole('button', { name: language, exact: true }).click();
      const code = await page.getByRole('region', { name: 'Code' }).textContent();
      expect(code).not.toContain(service.apiKey);
      return code ?? '';
    };
    const python = pythonEnvironment(ROOT).python;
    const node = ['--conditions=@trainyard/source', '--input-type=module', '-e'];
    for (const [language, command, args] of [
      ['curl', 'sh', ['-c']],
      ['openai for Node.js', process.execPath, node],
      ['@trainyard/sdk', process.execPath, node],
      ...(hasPython ? ([['openai for Python', python, ['-c']]] as const) : []),
    ] as const) {
      const { stdout } = await run(command, [...args, await codeOf(language)], options);
      const content = language === 'curl' ? contentOf(stdout) : stdout.trimEnd();
      expect([language, content]).toEqual([language, 'Hello to you.']);
    }
    expect(await faultsInBothThemes(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await expect.poll(() => page.getByRole('dialog').count(), WAIT).toBe(0);
  });
});

/** Text of a stream as curl prints it. */
function contentOf(stream: string): string {
  expect(stream).toContain('data: [DONE]');
  const events = [...stream.matchAll(/^data: (\{.*\})$/gm)].map(
    ([, data]) => JSON.parse(data!) as { choices: { delta: { content?: string } }[] },
  );
  return events.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
}

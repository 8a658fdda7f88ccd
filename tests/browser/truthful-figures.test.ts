/**
 * Figures that do not mislead: prompts with examples, fresh rollouts apart from later updates, failed jobs. One
 * service with a seeded run; mouse, keyboard, axe, an empty console.
 */
import { readFile } from 'node:fs/promises';

import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { buildDashboard } from '../../packages/dashboard/build.mjs';
import { axeViolations } from '../support/axe-violations.ts';
import { hasBrowser } from '../support/browser.ts';
import { loggedReply } from '../support/logged-reply.ts';
import { SeededDashboard } from '../support/seeded-dashboard.ts';

const NUM_STEPS = 12;
const WAIT = { timeout: 60_000 };
const NUM_QUESTIONS = 4;

describe.skipIf(!hasBrowser())('in Chromium', () => {
  let service: SeededDashboard;
  let logged: string;
  const complaints: string[] = [];

  beforeAll(async () => {
    await buildDashboard();
    service = await SeededDashboard.open({ numSteps: NUM_STEPS, hasFailedJob: true, hasPausedJob: false });
    await service.api('POST', `/preview/models/${service.modelId}/log`, {
      split: 'few',
      trajectory_groups: Array.from({ length: NUM_QUESTIONS }, (_, group) => fewShot(group)),
    });
    logged = `/models/${service.modelId}/rollouts?step=${NUM_STEPS}&split=few`;
  }, 120_000);
  afterAll(() => service?.close());

  async function open(path: string, width = 1440): Promise<Page> {
    const page = await service.signedIn(path, { viewport: { width, height: 900 } });
    page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', ({ message }) => complaints.push(message));
    return page;
  }

  async function faultsOf(page: Page): Promise<string[]> {
    return [...(await axeViolations(page)), ...complaints.splice(0)];
  }

  test('a group shows its own question, and folds the examples that all groups share', async () => {
    const page = await open(logged);
    await page.getByText('Group 2What is 2 times 7?').waitFor(WAIT);
    await page.getByRole('button', { name: 'Group 2 side by side' }).click();
    const folded = page.getByText('2 messages of examples');
    await folded.waitFor(WAIT);
    expect(await page.getByText('What is 318 times 47?').isVisible()).toBe(false);
    await folded.click();
    expect(await page.getByText('What is 318 times 47?').isVisible()).toBe(true);
    expect(await faultsOf(page)).toEqual([]);
    await page.context().close();
  });

  test('the table has words, filters, order and columns in the address, and Back keeps its place', async () => {
    const page = await open(`/models/${service.modelId}/rollouts?view=all`, 1280);
    const rows = page.locator('.rollout-line');
    await rows.first().getByText('What is 3 times 7?').waitFor(WAIT);
    expect(await rows.first().textContent()).toContain('It is 22.');
    await page.getByRole('button', { name: 'Add a filter' }).click();
    await page.getByRole('menuitem', { name: 'Ended by' }).click();
    await expect.poll(() => rows.count(), WAIT).toBe(NUM_QUESTIONS);
    await page.getByRole('button', { name: 'Remove filter: Ended by' }).click();
    await page.getByRole('button', { name: 'Tokens' }).click();
    await expect.poll(() => new URL(page.url()).search, WAIT).toBe('?view=all&sort=num_tokens');
    await rows.first().getByText('length').waitFor(WAIT);
    await page.getByRole('button', { name: 'Columns' }).click();
    await page.getByRole('menuitemcheckbox', { name: 'Advantage' }).click();
    await page.keyboard.press('Escape');
    await page.getByRole('columnheader', { name: 'Advantage' }).waitFor(WAIT);
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'All of these rollouts as CSV' }).click();
    const csv = await readFile(await (await download).path(), 'utf8');
    expect(csv.split('\n')[0]).toMatch(/^id,split,step,job_id.*,metrics\.words$/);
    expect(csv.trimEnd().split('\n').length).toBe(1 + (await totalRollouts()));
    expect(await faultsOf(page)).toEqual([]);
    const box = page.locator('.rollout-scroll');
    await box.evaluate((element) => element.scrollTo({ top: 1500 }));
    await rows.nth(20).click();
    await page.getByText(/in the list/).waitFor(WAIT);
    const first = page.url();
    const place = async () => Number(/^\d+/.exec(await page.getByText(/in the list/).innerText())?.[0]);
    const start = await place();
    // Keys that follow each other faster than rollouts load count too.
    for (const key of ['j', 'j', 'j', 'k']) await page.keyboard.press(key);
    await expect.poll(place, WAIT).toBe(start + 2);
    for (const key of ['k', 'k']) await page.keyboard.press(key);
    await expect.poll(() => page.url(), WAIT).toBe(first);
    await page.getByRole('link', { name: 'Next' }).focus();
    for (const key of ['Enter', 'Enter']) await page.keyboard.press(key);
    await expect.poll(place, WAIT).toBe(start + 2);
    await page.goBack();
    await expect.poll(() => box.evaluate((element) => element.scrollTop), WAIT).toBeGreaterThan(100);
    expect(complaints.splice(0)).toEqual([]);
    await page.context().close();
  });

  async function totalRollouts(): Promise<number> {
    const { data } = await service.api<{ data: unknown[] }>(
      'GET',
      `/preview/models/${service.modelId}/trajectories?limit=1000`,
    );
    return data.length;
  }

  test('charts show own metrics, are found, hidden, enlarged and saved, and a zoom is undone by Back', async () => {
    const page = await open(`/models/${service.modelId}/charts`);
    const card = (title: string) => page.getByRole('region', { name: title, exact: true });
    for (const title of ['Solved', 'Reply length', 'Cut off', 'words']) await card(title).waitFor(WAIT);
    const plot = card('Reward').locator('.u-over');
    await plot.waitFor(WAIT);
    const plots = page.locator('.chart-grid').first().locator('.line-chart');
    await expect
      .poll(
        () =>
          plots.evaluateAll(
            (drawn) =>
              [
                drawn.length > 2,
                ...new Set(drawn.slice(0, 3).map((one) => Math.round(one.getBoundingClientRect().top))),
              ].length,
          ),
        WAIT,
      )
      .toBe(2);
    await plot.hover({ position: { x: 40, y: 40 } });
    await page.mouse.down();
    const box = (await plot.boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await expect.poll(() => new URL(page.url()).searchParams.get('from'), WAIT).not.toBeNull();
    await page.goBack();
    await expect.poll(() => new URL(page.url()).search, WAIT).toBe('');
    await page.getByLabel('Search charts').fill('/^train/rollouts/');
    await expect.poll(() => card('Entropy').count(), WAIT).toBe(0);
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Solved: more' }).click();
    await page.getByRole('menuitem', { name: 'Save as PNG' }).click();
    expect((await readFile(await (await saved).path())).subarray(1, 4).toString()).toBe('PNG');
    await page.getByRole('button', { name: 'Solved: more' }).click();
    await page.getByRole('menuitem', { name: 'Hide' }).click();
    await expect.poll(() => card('Solved').count(), WAIT).toBe(0);
    for (const axis of ['trained tokens', 'hours', 'gradient steps']) {
      await page.getByRole('combobox', { name: 'Over' }).selectOption(axis);
      await card('words').locator('canvas').waitFor(WAIT);
    }
    expect(await faultsOf(page)).toEqual([]);
    await page.context().close();
  });

  test('the histogram is one Tab stop with labels at both ends, next to a chart of the steps', async () => {
    const page = await open(`/models/${service.modelId}/rollouts?step=3&split=train`, 1024);
    const bars = page.locator('.reward-bar');
    await bars.first().waitFor(WAIT);
    expect(await page.locator('.reward-bar[tabindex="0"]').count()).toBe(1);
    const labels = await page.locator('.reward-label').allTextContents();
    expect([labels.at(0), labels.at(-1)].every((label) => /^[\d.]+$/.test(label ?? ''))).toBe(true);
    await bars.first().focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await expect.poll(() => bars.last().getAttribute('aria-pressed'), WAIT).toBe('true');
    await page.getByRole('region', { name: 'train/reward' }).waitFor(WAIT);
    expect(await faultsOf(page)).toEqual([]);
    await page.context().close();
  });

  test('the overview shows the fresh gap, and a failed job with its reason, which is tried again', async () => {
    const page = await open(`/models/${service.modelId}`);
    const card = page.getByRole('region', { name: 'Failed job' });
    await card.getByText('The loss is NaN at gradient step 1').waitFor(WAIT);
    expect(await page.getByText('Sampler = trainer').locator('..').textContent()).toMatch(/[456]e-6$/);
    await page.getByText('Values of jobs that failed or were cancelled.').waitFor(WAIT);
    expect(await faultsOf(page)).toEqual([]);
    await page.goto(`${service.origin}/models`);
    await page.getByText('last job failed').waitFor(WAIT);
    const row = await page.getByRole('row').nth(1).textContent();
    const { data } = await service.api<{ data: { reward: { value: number } }[] }>('GET', '/preview/models');
    expect(row).toContain(data[0]!.reward.value.toFixed(3));
    await page.goBack();
    await card.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('region', { name: 'Unfinished jobs' }).waitFor(WAIT);
    expect(complaints.splice(0)).toEqual([]);
    await page.context().close();
  });
});

/** Rollouts of one question after an example. */
function fewShot(group: number): object {
  const message = (role: string, content: string) => ({ role, content });
  return {
    trajectories: Array.from({ length: 4 }, (_, index) => ({
      messages_and_choices: [
        message('user', 'What is 318 times 47?'),
        message('assistant', '14946'),
        message('user', `What is ${group} times 7?`),
        loggedReply(index + 2, `It is ${group * 7 + (index % 2)}.`, index === 3 ? 'length' : 'stop'),
      ],
      reward: index % 2 === 0 ? 1 : 0,
      metrics: { words: index },
    })),
  };
}

/** Pages as a daily user reads them: supervised runs, jobs, lists and keys of other scopes, in a real browser. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { hasBrowser } from '../support/browser.ts';
import { JudgedPage } from '../support/judged-page.ts';
import { loggedReply } from '../support/logged-reply.ts';
import { SeededDashboard } from '../support/seeded-dashboard.ts';
import { seedSupervisedRun } from '../support/seeded-supervised-run.ts';

describe.skipIf(!hasBrowser())('the dashboard, used daily', () => {
  let dashboard: SeededDashboard;
  let supervised: { modelId: string; jobId: string };
  let page: Page;
  let judged: JudgedPage;
  beforeAll(async () => {
    const dataDirectory = mkdtempSync(join(tmpdir(), 'trainyard-daily-'));
    supervised = await seedSupervisedRun(dataDirectory);
    dashboard = await SeededDashboard.open({ dataDirectory });
    page = await dashboard.signedIn('/models');
    judged = new JudgedPage(page, dashboard.origin);
  });
  afterAll(async () => {
    await dashboard?.close();
  });

  const open = async (path: string) => await page.goto(dashboard.origin + path);
  /** Fails for a page that is wider than the window, a violation of axe, or a line in the console. */
  async function expectFit(): Promise<void> {
    expect(await judged.faults()).toEqual([]);
  }

  test('a supervised model shows its loss over gradient steps, its file and its examples, and no reward', async () => {
    await open(`/models/${supervised.modelId}`);
    await page.getByText('gradient step 11').waitFor();
    await page.getByText('wandb-artifact:///local/support/facts:v0').waitFor();
    await page.getByText('3 conversations').waitFor();
    await page.getByText('Ilse Ottaway.').waitFor();
    await page.getByText('held out: the first 100 of 3,000 in wandb-artifact:///local/support/others:v0').waitFor();
    await page.getByText(/^held-out conversations/).waitFor();
    const text = (await page.locator('main').textContent()) ?? '';
    expect(text).not.toMatch(/reward|npm run demo/i);
    await expectFit();
    await page.getByRole('link', { name: 'Charts' }).click();
    await page.waitForURL(/axis=gradient_step/);
    await page.getByText(/^Mean negative log-probability/).waitFor();
    expect(await page.locator('main').textContent()).not.toMatch(/watch the reward|policy/i);
    await page.getByRole('link', { name: 'Rollouts' }).click();
    await page.getByText('This model learns from conversations').waitFor();
    await open(`/jobs/${supervised.jobId}`);
    await page.getByRole('heading', { name: 'Conversations' }).waitFor();
    await page.getByText('2 after 12 gradient steps').waitFor();
    expect(await page.locator('main').textContent()).not.toMatch(/Groups|Available once the job starts/);
    await expectFit();
  });

  test('runs are compared by filter, with the settings that differ and a baseline', async () => {
    await page.setViewportSize({ width: 1280, height: 900 });
    await open('/models?q=s');
    await page.getByRole('link', { name: 'Compare' }).click();
    await page.waitForURL(/compare\?q=s/);
    await page.getByText('2 runs').waitFor();
    await page.getByRole('heading', { name: 'Settings that differ' }).waitFor();
    await page.getByLabel('Baseline').selectOption({ label: 'short-answers' });
    await page.getByText('To the baseline').waitFor();
    expect(await page.getByRole('table', { name: 'Runs' }).getByText('baseline', { exact: true }).count()).toBe(1);
    await expectFit();
  });

  test('models get tags and notes in place, sweeps are compared by tag, and an archived model leaves the lists', async () => {
    await page.setViewportSize({ width: 1280, height: 900 });
    await open(`/models/${supervised.modelId}`);
    const tags = page.getByLabel('Add tags, separated by commas');
    await tags.fill('sweep-1, kept');
    await tags.press('Enter');
    await page.getByRole('button', { name: 'Remove the tag kept' }).click();
    await page.getByRole('button', { name: 'Remove the tag kept' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Add notes' }).click();
    await page.getByLabel('Notes', { exact: true }).fill('Twice the rate.\nOf the first run.');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Of the first run.').waitFor();
    await expectFit();

    await page.setViewportSize({ width: 1280, height: 900 });
    await open('/models');
    await page.getByLabel('Choose short-answers').check();
    await page.getByRole('button', { name: 'Tag 1' }).click();
    await page.getByLabel('Add tags, separated by commas').fill('sweep-2');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Tags' }).click();
    for (const tag of ['sweep-1', 'sweep-2']) await page.getByRole('menuitemcheckbox', { name: tag }).click();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Tags: sweep-1, sweep-2' }).waitFor();
    await page.getByLabel('Choose short-answers').uncheck();
    await expectFit();
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.getByRole('link', { name: 'Compare' }).click();
    await page.waitForURL(/compare\?tag=sweep-1&tag=sweep-2/);
    await page.getByText('2 runs').waitFor();
    expect(await page.getByLabel('Lines').inputValue()).toBe('tag');
    await expectFit();

    await page.setViewportSize({ width: 1280, height: 900 });
    await open('/models');
    await page.getByLabel('Choose facts').check();
    await page.getByRole('button', { name: 'Archive 1' }).click();
    await page.getByRole('link', { name: 'facts' }).waitFor({ state: 'detached' });
    await page.getByLabel('Show').selectOption({ label: 'archived' });
    await page.getByRole('link', { name: 'facts' }).click();
    await page.getByText('not trained').waitFor();
    await expectFit();
    await page.getByRole('button', { name: 'Restore' }).click();
    await page.getByText('not trained').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Archive' }).waitFor();
  });

  test('two sweeps of three seeds are compared without typing a name', async () => {
    const base_model = (await dashboard.api<{ data: { id: string }[] }>('GET', '/models')).data[0]!.id;
    const rewards = { 'rate-high': [0.2, 0.4, 0.6], 'rate-low': [0.5, 0.7, 0.9] };
    for (const [tag, all] of Object.entries(rewards))
      for (const [index, reward] of all.entries()) {
        const named = { project: 'sweeps', name: `${tag}-seed-${index + 1}`, base_model };
        const { id } = await dashboard.api<{ id: string }>('POST', '/preview/models', named);
        await dashboard.api('PATCH', `/preview/models/${id}`, { add_tags: [tag] });
        const rollout = {
          messages_and_choices: [{ role: 'user', content: 'Say a word.' }, loggedReply(3, 'harbour')],
          reward,
        };
        const trajectory_groups = [{ trajectories: [rollout] }];
        await dashboard.api('POST', `/preview/models/${id}/log`, { split: 'val', trajectory_groups });
      }
    await page.setViewportSize({ width: 1280, height: 900 });
    await open('/models');
    await page.getByRole('button', { name: 'Tags' }).click();
    for (const tag of Object.keys(rewards)) await page.getByRole('menuitemcheckbox', { name: tag }).click();
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Compare' }).click();
    await page.getByText('6 runs').waitFor();
    await page.getByLabel('Metric').selectOption('val/reward');
    for (const tag of Object.keys(rewards)) await page.getByText(`${tag} (3)`).first().waitFor();
    const rows = await judged.rows('Runs');
    const lastOf = new Map(rows.map(([name, , last]) => [name, Number(last)]));
    expect(lastOf).toEqual(
      new Map(
        Object.entries(rewards).flatMap(([tag, all]) =>
          all.map((reward, index) => [`${tag}-seed-${index + 1}`, reward] as const),
        ),
      ),
    );
    await page.getByLabel('Lines').selectOption('seed');
    await page.getByText('rate-high (3)').first().waitFor();
    await expectFit();
  });

  test('Ctrl-K leads to any page or model by keyboard, and ? lists the shortcuts', async () => {
    await page.setViewportSize({ width: 1280, height: 900 });
    await open('/system');
    await page.getByRole('heading', { name: 'System' }).waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search pages, models, jobs and guides' }).fill('short charts');
    await page.getByRole('option', { name: 'demo/short-answers' }).first().waitFor();
    expect(await judged.violations()).toEqual([]);
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/models\/.*\/charts$/);
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(judged.complaints()).toEqual([]);
  });

  test('a chat shows its pace, survives a reload, and branches from an earlier input', async () => {
    await page.setViewportSize({ width: 1280, height: 900 });
    await open('/chat?model=HuggingFaceTB/SmolLM2-135M-Instruct');
    await page.getByLabel('max_tokens', { exact: true }).fill('4');
    await page.getByLabel('Message', { exact: true }).fill('Say a word.');
    await page.keyboard.press('Enter');
    await page.getByText(/ s to the first token · [1-4] tokens?/).waitFor();
    await page.waitForURL(/chat=/);
    await page.getByRole('button', { name: /^Chats \(1\)/ }).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Edit and ask again: Say a word.' }).click();
    expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('Say a word.');
    // A reload forgets the fields.
    await page.getByLabel('max_tokens', { exact: true }).fill('4');
    await page.getByLabel('Message', { exact: true }).fill('Say another word.');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: /^Chats \(2\)/ }).click();
    await page.getByRole('menuitem', { name: 'Say a word.' }).click();
    await page.getByRole('button', { name: 'Edit and ask again: Say a word.' }).waitFor();
    await page.getByLabel('max_tokens', { exact: true }).fill('4000');
    await page.getByLabel('Message', { exact: true }).fill('Say many words.');
    await page.keyboard.press('Enter');
    await page.getByText(/ s to the first token · \d\d+ tokens/).waitFor();
    await page.reload();
    await page.getByRole('button', { name: 'Edit and ask again: Say many words.' }).waitFor();
    await page.getByText('Ended: the page was left.').waitFor();
    await page.getByText('Tools', { exact: true }).click();
    await page.getByRole('button', { name: 'Add a function' }).click();
    await page.getByRole('combobox', { name: /^Call/ }).selectOption({ label: 'always get_weather' });
    await expectFit();
  });

  test('beyond a hundred models, jobs have names, filters all projects, and Ctrl-K finds the oldest', async () => {
    const base_model = (await dashboard.api<{ data: { id: string }[] }>('GET', '/models')).data[0]!.id;
    for (let index = 0; index < 110; index++)
      await dashboard.api('POST', '/preview/models', { project: 'many', name: `model-${index}`, base_model });
    await page.setViewportSize({ width: 1280, height: 900 });
    await open('/jobs');
    await page.getByRole('table', { name: 'Training jobs' }).getByText('support/facts').first().waitFor();
    const projects = page.getByRole('combobox', { name: /^Project/ }).getByRole('option');
    await expect.poll(() => projects.allTextContents()).toEqual(expect.arrayContaining(['demo', 'many', 'support']));
    await page.keyboard.press('Control+k');
    const search = page.getByRole('combobox', { name: 'Search pages, models, jobs and guides' });
    await search.fill('support/facts');
    await page.getByRole('option', { name: 'support/facts' }).first().waitFor();
    await search.fill(supervised.jobId.slice(0, 8));
    await page.getByRole('option', { name: 'support/facts' }).waitFor();
    await search.fill(supervised.jobId);
    await page.getByRole('option').first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(new RegExp(`/jobs/${supervised.jobId}$`));
    await open('/chat');
    const model = page.getByRole('combobox', { name: 'Model', exact: true });
    await expect.poll(() => model.inputValue()).toBe('local/many/model-109');
    expect(judged.complaints()).toEqual([]);
  });

  test('a key of inference alone lands on the chat and sees no page of others; when it expires, the page gives the reason', async () => {
    const expires = Math.ceil(Date.now() / 1000) + 8;
    const key = { name: 'guest@phone', scopes: ['inference'], expires_at: expires };
    const { secret } = await dashboard.api<{ secret: string }>('POST', '/keys', key);
    const guest = await dashboard.signedIn('/', {}, secret);
    await guest.waitForURL(/\/chat$/);
    expect(await guest.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents()).toEqual([
      'Chat',
    ]);
    await guest.goto(`${dashboard.origin}/models`);
    await guest.getByText('This page needs a key with the scope training').waitFor();
    expect(await guest.getByRole('alert').count()).toBe(0);
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, expires * 1000 + 500 - Date.now())));
    await guest.reload();
    await guest.getByText(/The key guest@phone expired on .* at .*\. Sign in with another one\./).waitFor();
    await guest.context().close();
  });
});

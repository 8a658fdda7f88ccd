/**
 * The dashboard on a long run, as a person sees it: 12,000 rollouts over 500 steps, a failed and a paused job, a
 * supervised run, chats of two keys. Every figure is the same on each page and in the API; every page fits its
 * window in both themes, has no violation of axe and leaves the console empty. One service and one page for all.
 */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { CheckpointObject, ModelDetailsObject, TrainingJobObject, TrajectoryObject } from '@trainyard/sdk';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { buildDashboard } from '../../packages/dashboard/build.mjs';
import { hasBrowser } from '../support/browser.ts';
import { JudgedPage } from '../support/judged-page.ts';
import { loggedReply } from '../support/logged-reply.ts';
import { SeededDashboard } from '../support/seeded-dashboard.ts';
import { seedSupervisedRun } from '../support/seeded-supervised-run.ts';

const NUM_STEPS = 500;
const [NUM_GROUPS, GROUP_SIZE] = [2, 12];
/** Rollouts of training. Each fifth step has as many of `val`, the failed job as many as a step; two have tokens. */
const NUM_TRAINED = NUM_STEPS * NUM_GROUPS * GROUP_SIZE;
const NUM_ROLLOUTS = NUM_TRAINED * 1.2 + NUM_GROUPS * GROUP_SIZE + 2;

/** Pages, a text that a person looks for there, and the heading that must be in the first screen. */
const VIEWS: readonly (readonly [path: string, content: string, heading: RegExp])[] = [
  ['/models', 'short-answers', /^Models$/],
  ['/models/MODEL', 'last job failed', /^short-answers/],
  ['/models/MODEL/charts', 'Sampler against trainer', /^short-answers/],
  [`/models/MODEL/rollouts?step=${NUM_STEPS - 1}&split=train`, `mean reward`, /^short-answers/],
  ['/models/MODEL/rollouts?view=all', 'so far; scroll for more', /^short-answers/],
  ['/models/MODEL/checkpoints', 'latest', /^short-answers/],
  ['/models/MODEL/jobs', 'succeeded', /^short-answers/],
  ['/models/SFT', 'gradient step 11', /^facts/],
  ['/compare?model=MODEL&model=SFT', 'Settings that differ', /^Compare/],
  ['/jobs', 'failed', /^Jobs$/],
  ['/jobs/JOB', 'Gradient step', /^Job /],
  ['/chat', 'Ask something', /^Chat/],
  ['/usage', 'By key', /^Usage$/],
  ['/keys', 'guest', /^Keys$/],
  ['/system', 'KV cache', /^System$/],
  ['/guides', 'To run it for others', /^Trainyard$/],
  ['/guides/charts-and-warnings', 'Warnings', /./],
  ['/guides/search?q=learning+rate', 'How it is built', /^Search/],
];

interface Series {
  readonly first: number[];
  readonly mean: number[];
}
interface UsageGroup {
  readonly kind?: string;
  readonly key_name?: string;
  readonly num_requests: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
}

describe.skipIf(!hasBrowser())('a long run in Chromium', () => {
  let service: SeededDashboard;
  let supervised: { modelId: string; jobId: string };
  let judged: JudgedPage;
  let model: ModelDetailsObject;
  let modelPath: string;
  let jobs: TrainingJobObject[];

  beforeAll(async () => {
    await buildDashboard();
    const dataDirectory = mkdtempSync(join(tmpdir(), 'trainyard-long-'));
    supervised = await seedSupervisedRun(dataDirectory);
    service = await SeededDashboard.open({
      dataDirectory,
      numSteps: NUM_STEPS,
      numGroups: NUM_GROUPS,
      groupSize: GROUP_SIZE,
      hasFailedJob: true,
      hasPausedJob: false,
    });
    modelPath = `/models/${service.modelId}`;
    await sampleWithTwoKeys();
    await logTokens();
    model = await service.api('GET', `/preview/models/${service.modelId}`);
    jobs = (
      await service.api<{ data: TrainingJobObject[] }>(
        'GET',
        `/preview/models/${service.modelId}/training-jobs?limit=2&order=desc`,
      )
    ).data;
    judged = new JudgedPage(
      await service.signedIn('/system', { viewport: { width: 1440, height: 844 } }),
      service.origin,
    );
  }, 300_000);
  afterAll(() => service?.close());

  /** Usage of two keys and two projects. */
  async function sampleWithTwoKeys(): Promise<void> {
    const guest = await service.api<{ secret: string }>('POST', '/keys', { name: 'guest', scopes: ['inference'] });
    const body = { messages: [{ role: 'user', content: 'Say a word.' }], max_tokens: 3 };
    await service.api('POST', '/chat/completions', body);
    const response = await fetch(`${service.origin}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${guest.secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, max_tokens: 5 }),
    });
    expect(response.status).toBe(200);
  }

  /** Two rollouts with token ids, in the split `few`. */
  async function logTokens(): Promise<void> {
    const rollout = (numTokens: number) => ({
      messages_and_choices: [
        { role: 'user', content: 'What is 6 times 7?' },
        loggedReply(numTokens, `It is ${40 + numTokens}.`),
      ],
      reward: numTokens / 100,
    });
    const trajectory_groups = [{ trajectories: [rollout(2), rollout(37)] }];
    await service.api('POST', `/preview/models/${service.modelId}/log`, { split: 'few', trajectory_groups });
  }

  const series = async (name: string, id = service.modelId, axis = 'step') =>
    (await service.api<{ data: Series[] }>('GET', `/preview/models/${id}/series?name=${name}&axis=${axis}`)).data[0]!;
  const list = async <Item>(path: string) => {
    const all: Item[] = [];
    for (let after = ''; ;) {
      const page = await service.api<{ data: Item[]; has_more: boolean; last_id: string }>('GET', path + after);
      all.push(...page.data);
      if (!page.has_more) return all;
      after = `&after=${page.last_id}`;
    }
  };
  const score = (value: number) => value.toFixed(3);
  /** As on pages: four significant digits. */
  const value = (number: number) =>
    Math.abs(number) < 1e-4 ? number.toExponential(2) : String(Number(number.toPrecision(4)));
  const count = (number: number) => number.toLocaleString('en');

  describe('figures that appear twice are equal', () => {
    test('of a model: in the list, on its page, in its chart, its checkpoints and the API', async () => {
      const { page } = judged;
      const reward = await series('train/reward');
      const last = reward.mean.at(-1)!;
      // The failed job had a reward of 0.2, which is no figure of the model.
      expect(model.reward?.value).toBe(last);
      expect([model.latest_step, model.num_checkpoints, reward.mean.length]).toEqual([
        NUM_STEPS,
        NUM_STEPS + 1,
        NUM_STEPS,
      ]);

      await judged.open('/models', 'short-answers');
      const [cells] = (await judged.rows('Models')).filter((row) => row.join().includes('short-answers'));
      expect(cells).toContain(String(NUM_STEPS));
      expect(cells).toContain(score(last));
      expect(cells).toContain(`${score(model.best!.value)} step ${model.best!.step}`);

      await judged.open(modelPath, 'Sampler = trainer');
      // The first reward comes with the chart.
      await expect.poll(judged.facts.bind(judged)).toMatchObject({
        Step: String(NUM_STEPS),
        Reward: `${value(last)} from ${value(reward.mean[0]!)}`,
        Best: `${value(model.best!.value)} step ${model.best!.step}`,
        'Gradient steps': `${count(model.num_gradient_steps)} of all jobs`,
        Checkpoints: count(NUM_STEPS + 1),
      });
      await page.getByRole('button', { name: 'Reward as a table' }).click();
      // Step 500 has only rollouts of `val`, and of the failed job.
      const ofLast = (await judged.rows('Reward')).find(([step]) => step === String(NUM_STEPS - 1));
      expect(ofLast?.[1]).toBe(value(last));

      await judged.open(`${modelPath}/checkpoints`, 'latest');
      const checkpoints = await list<CheckpointObject>(`/preview/models/${service.modelId}/checkpoints?limit=100`);
      expect(checkpoints).toHaveLength(model.num_checkpoints);
      const inCell = (metric: number | undefined) => (metric === undefined ? '–' : score(metric));
      const shown = (await judged.rows('Checkpoints')).slice(0, 10).map((cells) => cells.slice(0, 3));
      expect(shown).toEqual(
        checkpoints
          .slice(-10)
          .toReversed()
          .map(({ step, metrics }, index) => [
            index === 0 ? `${step} latest` : String(step),
            inCell(metrics['train/reward']),
            inCell(metrics['val/reward']),
          ]),
      );
      // The reward belongs to the step that sampled the rollouts, before the newest one.
      expect(checkpoints.at(-2)!.metrics['train/reward']).toBeCloseTo(last, 12);
      expect(judged.complaints()).toEqual([]);
    });

    test('of fresh rollouts: on the page of their model, in the chart and the API', async () => {
      const { page } = judged;
      const gap = (await series('train/fresh/logprob_gap_mean')).mean.at(-1)!;
      await judged.open(modelPath, 'Sampler = trainer');
      await expect
        .poll(judged.facts.bind(judged))
        .toMatchObject({ 'Sampler = trainer': Number(gap.toPrecision(1)).toExponential(0) });
      await judged.open(`${modelPath}/charts?q=gap`, 'Log-probability gap');
      const chart = page.getByRole('region', { name: 'Log-probability gap', exact: true });
      await chart.getByText(`fresh rollouts ${value(gap)}`).waitFor();
      expect(judged.complaints()).toEqual([]);
    });

    test('of a job: in the list, on its page, among its rollouts, in the chart and the API', async () => {
      const { page } = judged;
      const [failed, succeeded] = jobs as [TrainingJobObject, TrainingJobObject];
      await judged.open(`/jobs/${succeeded.id}`, 'Gradient step');
      const rollouts = await list<TrajectoryObject>(
        `/preview/models/${service.modelId}/trajectories?limit=1000&job_id=${succeeded.id}`,
      );
      const mean = rollouts.reduce((sum, { reward }) => sum + reward, 0) / rollouts.length;
      expect(rollouts).toHaveLength(NUM_GROUPS * GROUP_SIZE);
      expect(mean).toBeCloseTo((await series('train/reward')).mean.at(-1)!, 12);
      await expect.poll(judged.facts.bind(judged)).toMatchObject({
        State: 'succeeded',
        'Gradient steps': `${succeeded.num_gradient_steps_done} of ${succeeded.num_gradient_steps_done}`,
        'Starts from step': String(NUM_STEPS - 1),
        Reward: String(Number(mean.toPrecision(3))),
      });
      const events = await page.getByRole('list', { name: 'Events, newest first' }).getByRole('listitem').all();
      const words = await Promise.all(events.map(async (event) => (await event.textContent()) ?? ''));
      expect(words.map((text) => /Ended|Gradient step|Started/.exec(text)?.[0])).toEqual([
        'Ended',
        'Gradient step',
        'Started',
      ]);
      const { config, changed_config_keys: changed } = succeeded;
      await page.getByRole('heading', { name: `Changed (${changed.length})` }).waitFor();
      await page.getByText(`Defaults (${Object.keys(config).length - changed.length})`).waitFor();
      await page.getByRole('link', { name: `${NUM_GROUPS} groups →` }).click();
      const summary = page.getByRole('region', { name: 'Rewards of this step' });
      await summary
        .getByText(`${rollouts.length} rollouts in ${NUM_GROUPS} groups · mean reward ${value(mean)}`)
        .waitFor();
      const bars = await summary.locator('.reward-bar').allTextContents();
      const counts = bars.map((text) => Number(/^\s*(\d+) rollouts/.exec(text)?.[1]));
      expect(counts.reduce((sum, one) => sum + one, 0)).toBe(rollouts.length);

      await judged.open('/jobs', failed.id.slice(0, 8));
      const rows = await judged.rows('Training jobs');
      expect(rows.slice(0, 2).map((cells) => [cells[0], cells[3]])).toEqual([
        [failed.id.slice(0, 8), 'failed'],
        [succeeded.id.slice(0, 8), 'succeeded'],
      ]);
      expect(judged.complaints()).toEqual([]);
    });

    test('of rollouts: in the table, on the page of one, and in the API', async () => {
      const { page } = judged;
      const all = await list<TrajectoryObject>(`/preview/models/${service.modelId}/trajectories?limit=1000`);
      expect(all).toHaveLength(NUM_ROLLOUTS);
      const low = all.filter(({ split, reward }) => split === 'val' && reward <= 0.1);
      await judged.open(`${modelPath}/rollouts?view=all&split=val&max=0.1`, `${count(low.length)} in all`);

      await judged.open(`${modelPath}/rollouts?view=all&split=few&sort=num_tokens`, '2 in all');
      const row = page.locator('.rollout-line').first();
      const cells = (await row.getByRole('cell').allTextContents()).map((text) => text.trim());
      await row.click();
      await page.locator('.rollout-facts').waitFor();
      const one = all.find(({ id }) => page.url().includes(id))!;
      expect(one).toMatchObject({ num_tokens: 37, question: 'What is 6 times 7?', excerpt: 'It is 77.' });
      expect(cells.slice(1, 7)).toEqual(['0.370', 'What is 6 times 7?', 'It is 77.', '1', '37', 'stop']);
      expect(await page.locator('.rollout-facts').textContent()).toMatch(/^Reward 0\.37Tokens 37.*Ended by stop/);
      for (const text of [one.question!, one.excerpt!]) await page.getByText(text).first().waitFor();
      await page.getByRole('link', { name: 'Tokens' }).click();
      await page
        .getByText('Its tokens were not trained')
        .or(page.getByText(/Reply at position/))
        .first()
        .waitFor();
      expect(await page.locator('[data-index]').count()).toBe(37);
      expect(judged.complaints()).toEqual([]);
    });

    test('of a failed job: its rollouts, their groups and the page of one show its state', async () => {
      const { page } = judged;
      const [failed] = jobs as [TrainingJobObject];
      await judged.open(`${modelPath}/rollouts?view=all&job=${failed.id}`, 'job failed');
      const rows = await page.locator('.rollout-line').allTextContents();
      expect(rows).toHaveLength(NUM_GROUPS * GROUP_SIZE);
      expect(rows.filter((text) => !text.startsWith('job failed'))).toEqual([]);
      await judged.open(`${modelPath}/rollouts?step=${NUM_STEPS}&split=train&job=${failed.id}`, 'only of');
      await expect.poll(() => page.getByText('job failed', { exact: true }).count()).toBe(NUM_GROUPS);
      await page.locator('.reward-chip').first().click();
      await page.getByText('Its job failed, so no step of the model learned from it.').waitFor();
      await page.goBack();
      await page.getByRole('button', { name: 'All of the step' }).click();
      await page.getByText('only of').waitFor({ state: 'detached' });
      await judged.open(`/jobs/${failed.id}`, 'the loss is NaN');
      await page.getByText('for training').waitFor();
      expect(judged.complaints()).toEqual([]);
    });

    test('of usage: the total, bars, tables, the file and filters agree with the API', async () => {
      const { page } = judged;
      const usage = async (by: string) =>
        (await service.api<{ data: UsageGroup[] }>('GET', `/preview/usage?${by}`)).data;
      const sum = (groups: readonly UsageGroup[]) =>
        groups.reduce((total, group) => [total[0]! + group.prompt_tokens, total[1]! + group.completion_tokens], [0, 0]);
      const keys = await usage('by=key');
      const [prompt, completion] = sum(await usage('by=kind')) as [number, number];
      expect(sum(keys)).toEqual([prompt, completion]);
      expect(sum(await usage('by=model&by=project&by=day'))).toEqual([prompt, completion]);
      const bars = () => page.locator('.day-bars figcaption').first().textContent();
      await judged.open('/usage', 'By key');
      expect(await bars()).toBe(`SamplingPrompt ${prompt}Completion ${completion}`);
      for (const table of ['By project and model', 'By key']) {
        const rows = await judged.rows(table);
        const numbers = rows.map((cells) => cells.slice(-6).map((cell) => Number(cell.replace('–', '0'))));
        const total = [0, 1, 2].map((column) => numbers.reduce((all, row) => all + row[column]!, 0));
        expect([table, total]).toEqual([table, [2, prompt, completion]]);
      }
      const download = page.waitForEvent('download');
      await page.getByRole('button', { name: 'CSV' }).click();
      const lines = readFileSync(await (await download).path(), 'utf8')
        .trim()
        .split('\n')
        .slice(1);
      expect(lines.reduce((all, line) => all + Number(line.split(',').at(-1)), 0)).toBe(completion);

      await page.getByRole('combobox', { name: /^Key/ }).selectOption({ label: 'guest' });
      const guest = keys.find(({ key_name: name }) => name === 'guest')!;
      await expect.poll(bars).toBe(`SamplingPrompt ${guest.prompt_tokens}Completion ${guest.completion_tokens}`);
      await page.reload();
      await expect.poll(bars).toBe(`SamplingPrompt ${guest.prompt_tokens}Completion ${guest.completion_tokens}`);
      await page.getByRole('button', { name: '7 days' }).click();
      await expect.poll(bars).toBe(`SamplingPrompt ${guest.prompt_tokens}Completion ${guest.completion_tokens}`);
      await page.getByLabel('Search models').fill('no such model');
      await page.getByText('No usage matches these filters.').waitFor();
      expect(judged.complaints()).toEqual([]);
    });

    test('of a supervised run: in the list, on its page, and in the API', async () => {
      const loss = (await series('train/loss', supervised.modelId, 'gradient_step')).mean;
      await judged.open('/models', 'facts');
      const [cells] = (await judged.rows('Models')).filter((row) => row.join().includes('facts'));
      await judged.open(`/models/${supervised.modelId}`, 'gradient step 11');
      expect(await judged.facts()).toMatchObject({ Loss: `${value(loss.at(-1)!)} from ${value(loss[0]!)}` });
      const { metrics } = await service.api<ModelDetailsObject>('GET', `/preview/models/${supervised.modelId}`);
      expect(cells).toContain(`loss ${score(metrics['train/loss']!)}`);
      expect(judged.complaints()).toEqual([]);
    });
  });

  describe('lists are filtered in the address', () => {
    test('keys by state, scope and name', async () => {
      const { page } = judged;
      await judged.open('/keys', 'guest');
      const names = async () => (await judged.rows('Keys')).map(([name]) => name);
      const all = (await names()).length;
      await page.getByLabel('Search names').fill('GUE');
      await expect.poll(names).toEqual(['guest']);
      await page.getByLabel('State').selectOption('revoked');
      await page.getByText('No key matches these filters.').waitFor();
      expect(new URL(page.url()).search).toBe('?q=GUE&state=revoked');
      await page.goBack();
      await judged.open('/keys?scope=admin', 'of the service');
      expect((await names()).length).toBe(all - 1);
      expect(judged.complaints()).toEqual([]);
    });

    test('checkpoints by step', async () => {
      const { page } = judged;
      await judged.open(`${modelPath}/checkpoints?to=42`, '42');
      await page.getByLabel('From step').fill('40');
      const steps = async () => (await judged.rows('Checkpoints')).map(([step]) => step);
      await expect.poll(steps).toEqual(['42', '41', '40']);
      expect(new URL(page.url()).search).toBe('?to=42&from=40');
      await page.getByLabel('State').selectOption('removed');
      await page.getByText('No checkpoint matches these filters.').waitFor();
      expect(judged.complaints()).toEqual([]);
    });
  });

  test('the sign-in page gives the end of an expired key', async () => {
    const now = Math.ceil(Date.now() / 1000);
    const { secret } = await service.api<{ secret: string }>('POST', '/keys', {
      name: 'short',
      scopes: ['inference'],
      expires_at: now + 2,
    });
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    const stranger = await (await service.browser.newContext()).newPage();
    await stranger.goto(`${service.origin}/usage`);
    await stranger.getByLabel('API key').fill(secret);
    await stranger.keyboard.press('Enter');
    const reason = stranger.getByText(/The key .?short.? expired on \d{4}-\d\d-\d\d at \d\d:\d\d UTC/);
    await reason.waitFor();
    expect(await reason.isVisible()).toBe(true);
    await stranger.context().close();
  });

  test('the page of a failed job queues it again', async () => {
    const { page } = judged;
    await judged.open(`/jobs/${jobs[0]!.id}`, 'the loss is NaN');
    await page.getByRole('button', { name: 'Try again' }).click();
    await expect.poll(() => page.url()).not.toContain(jobs[0]!.id);
    await page.getByRole('heading', { name: /^Job / }).waitFor();
    const { data } = await service.api<{ data: TrainingJobObject[] }>(
      'GET',
      `/preview/models/${service.modelId}/training-jobs?limit=1&order=desc`,
    );
    expect(page.url()).toContain(data[0]!.id);
    expect(judged.complaints()).toEqual([]);
  });

  test('guides are found by words, before decisions, and from Ctrl-K', async () => {
    const { page } = judged;
    await judged.open('/system', 'KV cache');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill('few shot prompts');
    const options = page.getByRole('option');
    await options.first().waitFor();
    expect(await options.first().textContent()).toMatch(/guide$/);
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/guides\//);
    await page.getByRole('link', { name: 'API reference' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('learning rate');
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/guides\/search\?q=learning\+rate/);
    const headings = await page.getByRole('heading', { level: 2 }).allTextContents();
    expect(headings).toEqual(['Guides and reference', 'How it is built']);
    await page.getByRole('main').getByRole('link').first().click();
    await page.waitForURL(/\/guides\/(?!search)/);
    expect(judged.complaints()).toEqual([]);
  });

  test.each(VIEWS.flatMap((view) => (['light', 'dark'] as const).map((theme) => [...view, theme] as const)))(
    '%s fits each window, has no violation of axe and leaves the console empty: "%s" below %s, %s',
    async (path, content, heading, theme) => {
      const { page } = judged;
      await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width: 1440, height: 844 });
      const named = path
        .replace('MODEL', service.modelId)
        .replace('SFT', supervised.modelId)
        .replace('JOB', jobs[1]!.id);
      await judged.open(named, content);
      const title = page.getByRole('heading', { level: 1, name: heading }).first();
      // Light pages end at the widest window, dark ones at the narrowest: axe looks there.
      expect(await judged.faults({ seen: [title], last: theme === 'light' ? 'wide' : 'narrow' })).toEqual([]);
    },
  );

  test('the API reference fits each window and has no violation of axe', async () => {
    const { page } = judged;
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    await judged.open('/docs', 'Every error has the shape');
    expect(await judged.faultsInWindows()).toEqual([]);
    // It has 15,000 elements: of its sections two are enough.
    await page.evaluate(`document.querySelectorAll('main section').forEach((one) => {
      if (!['createChatCompletion', 'schema-ErrorBody'].includes(one.id)) one.remove();
    })`);
    expect(await judged.violations()).toEqual([]);
    expect(judged.complaints()).toEqual([]);
  });

  test('a list fills its window and ends in it, and names of models have the room', async () => {
    const { page } = judged;
    await page.setViewportSize({ width: 1440, height: 844 });
    await judged.open('/jobs', 'failed');
    const list = (await page.getByRole('table', { name: 'Training jobs' }).boundingBox())!;
    expect(list.height).toBeGreaterThan(500);
    expect(list.y + list.height).toBeLessThanOrEqual(844);
    await service.api('POST', '/keys', { name: 'someone@a-laptop', scopes: ['training'] });
    await judged.open('/keys', 'someone@a-laptop');
    const key = page.getByRole('row').filter({ hasText: 'someone@a-laptop' });
    const revoke = (await key.getByRole('button', { name: /^Revoke/ }).boundingBox())!;
    const ofKey = (await key.getByText('someone@a-laptop').boundingBox())!;
    expect(revoke.x + revoke.width).toBeLessThanOrEqual(1440);
    expect(ofKey.height).toBeLessThan(24);
    expect(Math.abs(revoke.y + revoke.height / 2 - ofKey.y - ofKey.height / 2)).toBeLessThan(3);
    await page.setViewportSize({ width: 1024, height: 844 });
    await judged.open('/models', 'short-answers');
    const name = (await page.locator('.model-name').first().boundingBox())!;
    expect(name.width).toBeGreaterThan(200);
    expect(name.height).toBeLessThan(48);
  });
});

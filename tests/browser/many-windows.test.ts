/** Ten windows of one browser, which has six connections to the service for all of them. */
import { createServer, request as send, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

import { Trainyard } from '@trainyard/sdk';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { hasBrowser, openBrowser } from '../support/browser.ts';
import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

const NUM_WINDOWS = 10;

describe.skipIf(!hasBrowser())('ten windows of one browser', () => {
  let service: OwnService;
  let browser: Browser;
  let client: Trainyard;
  let modelId: string;
  let modelName: string;
  let windows: Page[];
  /** Proxy for the service, because requests of a worker are invisible to pages. */
  let counter: Server;
  let origin: string;
  /** Paths of open streams of events. */
  const streams: string[] = [];
  const complaints: string[] = [];

  beforeAll(async () => {
    [service, browser] = await Promise.all([smallService(), openBrowser()]);
    client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const model = await client.models.register({ project: 'demo', name: 'watched', base_model: await baseModel() });
    modelId = model.id;
    modelName = `${model.entity}/${model.project}/${model.name}`;
    counter = createServer((asked, answer) => {
      const { method, headers, url } = asked;
      const { hostname, port } = new URL(service.url);
      const sent = send({ hostname, port, method, headers, path: url }, (response) => {
        const isEvents = response.headers['content-type']?.startsWith('text/event-stream') && method === 'GET';
        if (isEvents) streams.push(url!);
        answer.writeHead(response.statusCode!, response.headers);
        response.pipe(answer);
        answer.on('close', () => {
          sent.destroy();
          if (isEvents) streams.splice(streams.indexOf(url!), 1);
        });
      });
      sent.on('error', () => answer.destroy());
      asked.pipe(sent);
    });
    await new Promise<void>((resolve) => counter.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(counter.address() as AddressInfo).port}`;
    const context = await browser.newContext({ reducedMotion: 'reduce' });
    const first = await context.newPage();
    await first.goto(`${origin}/models`);
    await first.getByLabel('API key').fill(service.apiKey);
    await first.keyboard.press('Enter');
    await first.getByRole('navigation', { name: 'Pages' }).waitFor();
    context.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
    context.on('weberror', (error) => complaints.push(error.error().message));
    const others = await Promise.all(Array.from({ length: NUM_WINDOWS - 1 }, () => context.newPage()));
    windows = [first, ...others];
  });
  afterAll(async () => {
    await browser?.close();
    counter?.closeAllConnections();
    counter?.close();
    await service?.close();
  });

  const baseModel = async () => (await client.servedModels.list()).data[0]!.id;
  const each = async (act: (page: Page, index: number) => Promise<unknown>) =>
    void (await Promise.all(windows.map(act)));
  const goTo = async (paths: readonly string[]) =>
    await each((page, index) => page.goto(origin + paths[index % paths.length]!));
  async function submit(): Promise<string> {
    const groups = [await scoredGroup(client, modelName)];
    return (await client.trainingJobs.create({ model_id: modelId, trajectory_groups: groups })).id;
  }

  test('each shows a new job and its progress, over one shared stream', async () => {
    await goTo(['/jobs', `/models/${modelId}`]);
    await expect.poll(() => streams).toEqual(['/v1/preview/events']);
    const jobId = await submit();
    await client.trainingJobs.wait(jobId);
    // A list has its jobs, a model its step.
    await each((page, index) =>
      page
        .getByText(index % 2 === 0 ? jobId.slice(0, 8) : 'step 1')
        .first()
        .waitFor(),
    );
    expect(complaints).toEqual([]);
  });

  test('each shows the events of a job whose page it opened before they happened', async () => {
    await client.trainingJobs.wait(await submit());
    const running = await submit();
    const held = await submit();
    await client.trainingJobs.pause(held);
    await client.trainingJobs.wait(running);
    await goTo([`/jobs/${held}`]);
    await each((page) => page.getByText('No events yet.').waitFor());
    await client.trainingJobs.resume(held);
    await each((page) => page.getByText('Ended', { exact: true }).waitFor());
    await each(async (page) => {
      const words = await page.locator('.job-events li > time + span + span').allTextContents();
      expect(words.filter((word) => word !== 'Warning')).toEqual(['Ended', 'Gradient step', 'Started']);
    });
    expect(streams).toEqual(['/v1/preview/events']);
    expect(complaints).toEqual([]);
  });

  test('a chat is answered in all of them at once', async () => {
    await goTo([`/chat?model=${encodeURIComponent(modelName)}`]);
    await each(async (page) => {
      await page.getByLabel('max_tokens', { exact: true }).fill('8');
      await page.getByLabel('Message', { exact: true }).fill('Good day');
      await page.getByRole('button', { name: 'Send' }).click();
    });
    await each(async (page) => {
      await expect.poll(() => page.locator('.answer .token').count()).toBeGreaterThan(0);
      await expect.poll(() => page.getByText('answering').count()).toBe(0);
    });
    expect(complaints).toEqual([]);
  });

  test('the stream ends when all windows are hidden, and a new one starts when one is visible', async () => {
    const see = async (page: Page, state: 'hidden' | 'visible') =>
      await page.evaluate(
        `Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => '${state}' });
         document.dispatchEvent(new Event('visibilitychange'))`,
      );
    for (const page of windows.slice(1)) await see(page, 'hidden');
    expect(streams).toHaveLength(1);
    await see(windows[0]!, 'hidden');
    await expect.poll(() => streams).toEqual([]);
    await see(windows[0]!, 'visible');
    await expect.poll(() => streams).toHaveLength(1);
    await windows[0]!.close();
    await expect.poll(() => streams).toEqual([]);
  });
});

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Browser, Page } from 'playwright-core';

import { freePort } from '../../lab/free-port.mjs';
import type { OwnService } from '../../scripts/own-service.ts';
import { openBrowser } from './browser.ts';
import { type SeededRun, seedRun } from './seeded-run.ts';
import { smallService } from './small-service.ts';

const NUM_STEPS = 12;

/** A service with a trained model, and a browser. */
export class SeededDashboard {
  readonly modelId: string;
  readonly browser: Browser;
  readonly #dataDirectory: string;
  readonly #environment: Record<string, string>;
  #service: OwnService;

  private constructor(modelId: string, browser: Browser, service: OwnService, environment: Record<string, string>) {
    this.modelId = modelId;
    this.browser = browser;
    this.#service = service;
    this.#dataDirectory = service.dataDirectory;
    this.#environment = { ...environment, TRAINYARD_API_KEY: service.apiKey };
  }

  /** @param changes to its run of 12 steps */
  static async open(changes: Partial<SeededRun> = {}): Promise<SeededDashboard> {
    const { dataDirectory = mkdtempSync(join(tmpdir(), 'trainyard-dashboard-')) } = changes;
    const run = { dataDirectory, numSteps: NUM_STEPS, numGroups: 3, groupSize: 4, name: 'short-answers' };
    const modelId = await seedRun({ ...run, hasPausedJob: true, ...changes });
    const environment = { TRAINYARD_PORT: String(await freePort()) };
    const [service, browser] = await Promise.all([smallService({ dataDirectory, environment }), openBrowser()]);
    return new SeededDashboard(modelId, browser, service, environment);
  }

  get origin(): string {
    return new URL(this.#service.url).origin;
  }

  /** JSON answer to a request of the admin. */
  async api<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    const response = await fetch(this.#service.url + path, {
      method,
      headers: { authorization: `Bearer ${this.#service.apiKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Answer;
  }

  /** A page in a new browser context, signed in with a key. @param key default: the admin's */
  async signedIn(path: string, options: Parameters<Browser['newContext']>[0] = {}, key = this.#service.apiKey) {
    const context = await this.browser.newContext({ reducedMotion: 'reduce', ...options });
    const page: Page = await context.newPage();
    await page.goto(this.origin + path);
    await page.getByLabel('API key').fill(key);
    await page.keyboard.press('Enter');
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    return page;
  }

  async stopService(): Promise<void> {
    await this.#service.stop();
  }

  /** Starts the service on the same data and port. */
  async startService(): Promise<void> {
    this.#service = await smallService({ dataDirectory: this.#dataDirectory, environment: this.#environment });
  }

  async close(): Promise<void> {
    await this.browser.close();
    await this.#service.close();
  }
}

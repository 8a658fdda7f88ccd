/**
 * Follows docs/guide/getting-started.md like a new user, in a fresh clone, with a real browser, and reports
 * the time of each step.
 *
 *   npm run lab -- tour                                  clones the last commit into an empty folder, which it removes
 *   npm run lab -- tour --pictures docs/guide         also takes the pictures of the guide
 *   npm run lab -- tour --steps 3                     a shorter demo
 *
 * The exit code is 1 if a step deviates from the guide; times are printed, with the other load of the
 * machine. Needs a network for the packages and the
 * model.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';

import type { Page } from 'playwright-core';

import { openBrowser } from '../../tests/support/browser.ts';
import { machineLine, otherCores, sampleCpu } from '../../bench/machine.ts';
import { Terminal } from './terminal.ts';

const ROOT = resolve(import.meta.dirname, '../..');
/** Pictures are small enough for the repository. */
const MAX_PICTURE_BYTES = 150_000;
/** Time limit of a step on a slow machine, ms. */
const WAIT = { timeout: 600_000 };

const { values } = parseArgs({
  options: {
    pictures: { type: 'string' },
    steps: { type: 'string', default: '15' },
    port: { type: 'string', default: '0' },
  },
});
const pictures = values.pictures === undefined ? null : resolve(values.pictures);
if (pictures !== null) mkdirSync(pictures, { recursive: true });

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-tour-'));
const clone = join(scratch, 'trainyard');
const startedAt = performance.now();
let stepStartedAt = startedAt;
let stepStartedCpu = sampleCpu();
const startedCpu = stepStartedCpu;
/** Running commands, the last one started at the end. */
const open: Terminal[] = [];

function done(step: string): void {
  const now = performance.now();
  const seconds = (from: number) => `${((now - from) / 1000).toFixed(1)} s`.padStart(8);
  const cpu = sampleCpu();
  console.log(`${seconds(stepStartedAt)} ${seconds(startedAt)} ${coresOf(stepStartedCpu, cpu)}   ${step}`);
  stepStartedAt = now;
  stepStartedCpu = cpu;
}

/** Cores used by other processes meanwhile, which may explain slow steps. */
function coresOf(before: typeof startedCpu, after: typeof startedCpu): string {
  return (otherCores(before, after)?.toFixed(1) ?? '?').padStart(7);
}

/** @param height of the shown part, px; default: the window's */
async function picture(page: Page, name: string, height = 860): Promise<void> {
  if (pictures === null) return;
  const path = join(pictures, `${name}.png`);
  // Moves the pointer next to the shown part, as for a real user.
  await page.mouse.move(1279, 859);
  await page.screenshot({ path, clip: { x: 0, y: 0, width: 1280, height } });
  const { size } = statSync(path);
  if (size > MAX_PICTURE_BYTES) throw new Error(`${path} has ${size} bytes, more than ${MAX_PICTURE_BYTES}`);
}

async function ask(page: Page, text: string): Promise<string[]> {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.keyboard.press('Enter');
  await page.locator('.answer').first().waitFor(WAIT);
  await page
    .locator('.answer[aria-busy=true]')
    .first()
    .waitFor({ ...WAIT, state: 'detached' });
  const answers = await page.locator('.chat-exchange').last().locator('.answer').all();
  return await Promise.all(answers.map(async (answer) => (await answer.locator('.token-text').innerText()).trim()));
}

const browser = await openBrowser();
process.once(
  'SIGINT',
  () => void Promise.all(open.map((terminal) => terminal.interrupt())).then(() => process.exit(130)),
);
try {
  console.log(machineLine());
  console.log('    step    total  others');
  await Terminal.run(`git clone --quiet --depth 1 "file://${ROOT}" trainyard`, scratch);
  done('git clone');

  const service = Terminal.open(`npm start -- --port ${values.port}`, clone);
  open.push(service);
  const link = await service.shows(/^Dashboard (\S+)$/m);
  done('npm start prints the link of the dashboard');

  const page = await browser.newPage({ viewport: { width: 1280, height: 860 }, reducedMotion: 'reduce' });
  page.setDefaultTimeout(WAIT.timeout);
  await page.goto(link);
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
  await page.getByText('npm run demo').waitFor();
  done('the link opens the dashboard, which shows the next step');

  await page.getByRole('link', { name: 'Chat' }).click();
  // Otherwise the answer is random.
  await page.getByLabel('temperature', { exact: true }).fill('0');
  const [first = ''] = await ask(page, 'What is the capital of France?');
  if (!first.includes('Paris')) throw new Error(`the base model does not know it: ${first}`);
  await picture(page, 'chat', 640);
  done('the base model answers in the browser');

  const demo = Terminal.open(`npm run demo -- --steps ${values.steps}`, clone);
  open.push(demo);
  await page.getByRole('link', { name: 'Models' }).click();
  await page.getByRole('link', { name: /^demo-concise-/ }).click();
  await page.getByRole('img', { name: /^Reward over steps/ }).waitFor();
  done('npm run demo: the first point of the curve is there, without a reload');
  const middle = Math.ceil(Number(values.steps) / 2);
  const shownStep = page.locator('.facts > div').filter({ hasText: /^Step/ }).locator('dd');
  while (Number(await shownStep.innerText()) < middle) await page.waitForTimeout(100);
  await picture(page, 'learning');
  done(`the page shows step ${middle} as it happens`);
  const printed = await demo.end();
  const [, name = ''] = /^the model stays on the service: (\S+)$/m.exec(printed) ?? [];
  if (name === '') throw new Error(`the demo does not print the name of its model:\n${printed}`);
  const [, before = '', after = ''] = /^mean reward (\S+) → (\S+)/m.exec(printed) ?? [];
  if (!(Number(after) > Number(before) + 0.2)) throw new Error(`the reward did not rise:\n${printed}`);
  await page.getByText(`Rollouts of step ${Number(values.steps) - 1}`).waitFor();
  await picture(page, 'learnt');
  done(`the demo ends: mean reward ${before} → ${after}`);

  await page.getByRole('link', { name: 'Charts' }).click();
  await page.getByRole('img', { name: /^Reward over steps/ }).waitFor();
  await picture(page, 'charts');
  await page.getByRole('link', { name: 'Rollouts', exact: true }).click();
  await page
    .getByRole('button', { name: /^\d+ rollouts, reward/ })
    .first()
    .waitFor();
  await picture(page, 'rollouts', 640);
  await page.getByRole('link', { name: 'Overview' }).click();
  const best = page.getByRole('article').filter({ hasText: 'Best rollout' });
  const worst = page.getByRole('article').filter({ hasText: 'Worst rollout' });
  const rewards = await Promise.all([best, worst].map(async (card) => Number(await card.locator('b').innerText())));
  if (!(rewards[0]! > rewards[1]!)) throw new Error(`the best rollout has the reward ${rewards.join(', the worst ')}`);
  await page.getByRole('link', { name: 'Best rollout: open rollout' }).click();
  await page.getByText('Assistant').first().waitFor();
  await picture(page, 'rollout', 360);
  done(`best and worst rollout of the last step: reward ${rewards.join(' and ')}`);

  await page.getByRole('link', { name: 'Chat' }).first().click();
  await page.getByRole('button', { name: 'Compare with another' }).click();
  const answers = await ask(page, 'What do bees make?');
  if (answers.length !== 2) throw new Error(`${answers.length} models answered`);
  await picture(page, 'compare', 640);
  done(`step 0 and the last step side by side: ${answers.map((answer) => `${answer.length} letters`).join(', ')}`);

  const key = { TRAINYARD_API_KEY: readFileSync(join(clone, '.trainyard/admin-key'), 'utf8').trim() };
  await Terminal.run(`npx trainyard export ${name} --format gguf-adapter --output adapter`, clone, key);
  const files = readdirSync(join(clone, 'adapter'));
  const adapter = files.find((file) => file.endsWith('.gguf'));
  if (adapter === undefined) throw new Error(`the export has no adapter: ${files.join(', ')}`);
  done(`npx trainyard export writes ${files.join(', ')}`);

  const total = (performance.now() - startedAt) / 1000;
  console.log(
    `${(total / 60).toFixed(1)} minutes in all; others used ${coresOf(startedCpu, sampleCpu()).trim()} cores`,
  );
} finally {
  await browser.close();
  for (const terminal of open.toReversed()) await terminal.interrupt();
  rmSync(scratch, { recursive: true, force: true });
}

/**
 * Scrolls the dashboard through a long run:   npm run bench:dashboard   (some minutes; `-- --steps 1000` is a tenth of it)
 *
 * 10,000 steps of ten trajectories each are put straight into the store. Then Chromium scrolls the checkpoints, the jobs, the rollouts and the charts to their
 * ends, screen by screen. A task of more than 50 ms is a long one: three frames at 60 a second are lost then.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { openBrowser } from '../tests/support/browser.ts';
import { seedRun } from '../tests/support/seeded-run.ts';
import { smallService } from '../tests/support/small-service.ts';
import { machineLine } from './machine.ts';

const NUM_WHEELS = 200;

const { values } = parseArgs({ options: { steps: { type: 'string', default: '10000' } } });
const numSteps = Number(values.steps);
const dataDirectory = mkdtempSync(join(tmpdir(), 'trainyard-bench-'));
console.log(machineLine());
const modelId = await seedRun({ dataDirectory, name: 'long', numSteps, numGroups: 1, groupSize: 10, hasWords: false });
console.log(`${numSteps} steps, ${numSteps * 10} trajectories of training`);
const service = await smallService({ dataDirectory });
const browser = await openBrowser();
try {
  const origin = new URL(service.url).origin;
  const [, link = ''] = /^Dashboard (\S+)$/m.exec(service.output()) ?? [];
  const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
  await page.addInitScript(`
    window.longTasks = [];
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longTasks.push(duration);
    }).observe({ type: 'longtask', buffered: true });
  `);
  await page.goto(link);
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  for (const part of ['', 'checkpoints', 'jobs', 'rollouts', 'charts']) {
    const startedMs = performance.now();
    await page.goto(`${origin}/models/${modelId}/${part}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    const openMs = performance.now() - startedMs;
    const atOpening = (await page.evaluate('window.longTasks.splice(0)')) as number[];
    await page.mouse.move(700, 500);
    for (let wheel = 0; wheel < NUM_WHEELS; wheel++) {
      await page.mouse.wheel(0, 600);
      await page.evaluate('new Promise((settle) => requestAnimationFrame(settle))');
    }
    const tasks = (await page.evaluate('window.longTasks.splice(0)')) as number[];
    console.log(
      `${(part || 'overview').padEnd(12)} long tasks while scrolling ${NUM_WHEELS} screens: ${tasks.length}, longest ${Math.max(0, ...tasks).toFixed(0)} ms; at opening ${atOpening.length}, there after ${openMs.toFixed(0)} ms`,
    );
  }
} finally {
  await browser.close();
  await service.close();
}

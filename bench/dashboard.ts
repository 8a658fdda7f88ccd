/**
 * Size of the dashboard, and its speed on a long run:   npm run bench -- dashboard   (some minutes; `-- --steps 1000` is a
 * tenth of it)
 *
 * 10,000 steps of ten trajectories each are written directly to the store. Then Chromium scrolls the
 * checkpoints, the jobs, the rollouts and the charts to their
 * ends, screen by screen. A frame is due every 16.7 ms; a task of more than 50 ms counts as long, because it
 * loses three frames. First paint is Chromium's first contentful paint of a newly opened page with its files
 * in the browser's cache. At last the table of rollouts is dragged to row 12,000, 4,000 px a frame, while the
 * service sends the rows.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { buildDashboard, MAX_GZIP_BYTES } from '../packages/dashboard/build.mjs';
import { openBrowser } from '../tests/support/browser.ts';
import { seedRun } from '../tests/support/seeded-run.ts';
import { smallService } from '../tests/support/small-service.ts';
import { machineLine, otherCores, sampleCpu } from './machine.ts';
import { markdownTable } from './markdown-table.ts';
import { median, percentile } from './percentile.ts';

const NUM_WHEELS = 200;
/** Rows of the table that is scrolled to its end, or all if there are fewer. */
const NUM_TABLE_ROWS = 12_000;
/** Runs in the page. @returns the number of rows at the end */
const DRAG_TO_END = `(async () => {
  const frame = () => new Promise((settle) => requestAnimationFrame(settle));
  for (;;) {
    const box = document.querySelector('.rollout-scroll');
    const rows = Math.floor(box.scrollHeight / 38);
    const isEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 2;
    if (rows >= ${NUM_TABLE_ROWS} && box.scrollTop >= ${NUM_TABLE_ROWS} * 38 - box.clientHeight) return ${NUM_TABLE_ROWS};
    if (isEnd && document.body.textContent.includes(' in all')) return rows - 1;
    box.scrollTop += 4000;
    await frame();
  }
})()`;
const HEAD = [
  'page',
  'first paint',
  'there after',
  'long tasks at opening',
  'median frame',
  '95 % of frames',
  'long tasks',
  'longest',
  'cores of others',
];
const ms = (value: number) => value.toFixed(value < 100 ? 1 : 0);

const { values } = parseArgs({ options: { steps: { type: 'string', default: '10000' } } });
const numSteps = Number(values.steps);
const dataDirectory = mkdtempSync(join(tmpdir(), 'trainyard-bench-'));
console.log(machineLine());
const { gzipBytes } = await buildDashboard();
console.log(`scripts and styles: ${(gzipBytes / 1000).toFixed(1)} of ${MAX_GZIP_BYTES / 1000} kB gzip`);
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
    window.frameTimes = [];
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longTasks.push(duration);
    }).observe({ type: 'longtask', buffered: true });
    let before = null;
    const tick = (now) => {
      if (before !== null) window.frameTimes.push(now - before);
      before = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  `);
  await page.goto(link);
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  const rows: string[][] = [];
  for (const part of ['', 'checkpoints', 'jobs', 'rollouts', 'rollouts?view=all', 'charts']) {
    const startedCpu = sampleCpu();
    const startedMs = performance.now();
    await page.goto(`${origin}/models/${modelId}/${part}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    const openMs = performance.now() - startedMs;
    const paintMs = (await page.evaluate(
      `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN`,
    )) as number;
    const atOpening = (await page.evaluate('window.longTasks.splice(0)')) as number[];
    await page.mouse.move(700, 500);
    await page.evaluate('window.frameTimes.splice(0)');
    for (let wheel = 0; wheel < NUM_WHEELS; wheel++) {
      await page.mouse.wheel(0, 600);
      await page.evaluate('new Promise((settle) => requestAnimationFrame(settle))');
    }
    const frames = (await page.evaluate('window.frameTimes.splice(0)')) as number[];
    const tasks = (await page.evaluate('window.longTasks.splice(0)')) as number[];
    rows.push([
      part || 'overview',
      ms(paintMs),
      ms(openMs),
      String(atOpening.length),
      ms(median(frames)),
      ms(percentile(frames, 0.95)),
      String(tasks.length),
      ms(Math.max(0, ...tasks)),
      otherCores(startedCpu, sampleCpu())?.toFixed(1) ?? '?',
    ]);
  }
  await page.goto(`${origin}/models/${modelId}/rollouts?view=all`);
  await page.locator('.rollout-line').first().waitFor();
  const draggedMs = performance.now();
  const numRows = Number(await page.evaluate(DRAG_TO_END));
  const dragSeconds = (performance.now() - draggedMs) / 1000;
  console.log(`scrolled ${NUM_WHEELS} screens of 600 px each; times in ms`);
  console.log(markdownTable(HEAD, rows));
  console.log(`table of rollouts: dragged to row ${numRows.toLocaleString('en')} in ${dragSeconds.toFixed(1)} s`);
} finally {
  await browser.close();
  await service.close();
}

/** Sizes of checkpoints on the dashboard, from files that the service has measured. */
import type { CheckpointObject } from '@trainyard/sdk';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { hasBrowser } from '../support/browser.ts';
import { SeededDashboard } from '../support/seeded-dashboard.ts';

describe.skipIf(!hasBrowser())('in Chromium', () => {
  let dashboard: SeededDashboard;
  beforeAll(async () => {
    dashboard = await SeededDashboard.open({
      numSteps: 4,
      hasPausedJob: false,
      files: { adapterBytes: 1_500_000, optimizerBytes: 3_000_000 },
    });
  });
  afterAll(async () => dashboard?.close());

  test('each checkpoint has its size, its share of optimizer state and the reason it is kept, and the list has the sum', async () => {
    const path = `/preview/models/${dashboard.modelId}/checkpoints?order=desc&limit=100`;
    const sizes = async () =>
      (await dashboard.api<{ data: CheckpointObject[] }>('GET', path)).data.map(
        ({ step, size_bytes: size, optimizer_bytes: optimizer }) => [step, size, optimizer],
      );
    // The optimizer state stays with the newest two.
    await expect.poll(sizes, { timeout: 60_000 }).toEqual([
      [4, 1_500_000, 3_000_000],
      [3, 1_500_000, 3_000_000],
      [2, 1_500_000, 0],
      [1, 1_500_000, 0],
      [0, null, null],
    ]);
    const page = await dashboard.signedIn(`/models/${dashboard.modelId}/checkpoints`);
    const table = page.getByRole('table', { name: 'Checkpoints' });
    await table.getByText('4.5 MB').first().waitFor();
    const header = await table.getByRole('columnheader').allTextContents();
    const column = header.indexOf('Size');
    expect(column).toBeGreaterThan(0);
    const cells = table.locator(`[role=cell]:nth-child(${column + 1})`);
    expect(await cells.allTextContents()).toEqual(['4.5 MB', '4.5 MB', '1.5 MB', '1.5 MB', '–']);
    const titles = await Promise.all([0, 2].map((row) => cells.nth(row).locator('span').getAttribute('title')));
    expect(titles[0]).toMatch(/^3\.0 MB of it optimizer state, kept for: .*last/);
    expect(titles[1]).toMatch(/^without optimizer state, kept for: .*last/);
    await page.getByText('All checkpoints: 12.0 MB, 6.0 MB of it optimizer state').waitFor();
    await page.context().close();
  });
});

import { expect, test } from 'vitest';

import { MinuteFigures } from './minute-figures.ts';
import { ServiceMetrics } from './service-metrics.ts';

const TOTALS = { numCheckpoints: 3, numMarked: 0, numUnmeasured: 0, sizeBytes: 40, optimizerBytes: 20 };

test('sums are read once a minute, and again after a failure', async () => {
  let now = 0;
  let numReads = 0;
  let isAway = false;
  const sumCheckpoints = async () => {
    numReads += 1;
    if (isAway) throw new Error('the database is away');
    return TOTALS;
  };
  const figures = new MinuteFigures(sumCheckpoints, () => now);
  expect(await Promise.all([figures.read(), figures.read()])).toEqual([TOTALS, TOTALS]);
  now = 59_999;
  await figures.read();
  expect(numReads).toBe(1);
  now = 60_000;
  isAway = true;
  await expect(figures.read()).rejects.toThrow('away');
  isAway = false;
  expect(await figures.read()).toEqual(TOTALS);
  expect(numReads).toBe(3);
});

test('bytes of checkpoints are listed per part, and omitted while the database does not answer', async () => {
  const metrics = new ServiceMetrics();
  const sources = {
    training: { problem: () => null },
    queue: async () => ({ queued: 0, running: 0, oldestSeconds: 0 }),
  };
  metrics.sources = { ...sources, checkpoints: async () => TOTALS };
  const lines = async () =>
    (await metrics.text()).split('\n').filter((line) => line.startsWith('trainyard_checkpoint_bytes'));
  expect(await lines()).toEqual([
    'trainyard_checkpoint_bytes{part="adapter"} 40',
    'trainyard_checkpoint_bytes{part="optimizer"} 20',
  ]);
  metrics.sources = { ...sources, checkpoints: () => Promise.reject(new Error('it is away')) };
  expect(await lines()).toEqual([]);
});

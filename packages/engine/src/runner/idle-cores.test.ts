import { expect, it } from 'vitest';

import { IdleCores } from './idle-cores.ts';

it('returns the mean over each window, and nothing in between', () => {
  let idleMs = 1_000_000;
  const idle = new IdleCores(() => idleMs);
  expect(idle.observe(0), 'nothing is known at the start of a window').toBeNull();
  expect(idle.observe(399)).toBeNull();
  idleMs += 400;
  expect(idle.observe(500)).toBeCloseTo(0.8, 12);
  idleMs += 1_000;
  expect(idle.observe(600)).toBeNull();
  expect(idle.observe(1_000)).toBeCloseTo(2, 12);
});

it('does not count the time before a forgotten window', () => {
  let idleMs = 0;
  const idle = new IdleCores(() => idleMs);
  idle.observe(0);
  idleMs = 60_000;
  idle.forget();
  expect(idle.observe(60_000)).toBeNull();
  idleMs += 250;
  expect(idle.observe(60_500)).toBeCloseTo(0.5, 12);
});

it('reads the machine', async () => {
  const idle = new IdleCores();
  idle.observe(0);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const numIdle = idle.observe(50_000);
  expect(numIdle).toBeGreaterThanOrEqual(0);
  expect(numIdle).toBeLessThan(1);
});

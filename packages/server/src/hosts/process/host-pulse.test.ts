import { PassThrough } from 'node:stream';

import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { HostPulse } from './host-pulse.ts';

let signs: PassThrough;
let hung: string[];
let nowMs: number;
let pulse: HostPulse;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  signs = new PassThrough();
  hung = [];
  nowMs = 0;
  pulse = new HostPulse({
    signs,
    isReady: () => true,
    onHung: (reason) => hung.push(reason),
    limits: { firstSignMs: 10_000, silenceMs: 10_000, idleMs: 60_000, turnMs: 600_000 },
    now: () => nowMs,
  });
});
afterEach(() => {
  pulse.stop();
  vi.useRealTimers();
});

let numSigns = 0;

/** One second of the watcher, during which the clock advances by `clockMs`. */
async function second(hasSign: boolean, clockMs = 1000): Promise<void> {
  if (hasSign) signs.write(`${numSigns++} ${numSigns} 1 ${numSigns * 500}\n`);
  await new Promise((resolve) => setImmediate(resolve));
  nowMs += clockMs;
  vi.advanceTimersByTime(1000);
}

test('a stopped host is reported once', async () => {
  for (let i = 0; i < 20; i++) await second(true);
  expect(hung).toEqual([]);
  for (let i = 0; i < 60; i++) await second(false);
  expect(hung).toEqual(['it gave no sign of life for 11 s']);
});

test('a machine that sleeps for a night, or a stop of all processes, kills no host', async () => {
  for (let night = 0; night < 50; night++) {
    await second(true);
    // After the jump of the clock the watcher wakes first, and the host a second later.
    await second(false, 8 * 3_600_000);
  }
  expect(hung).toEqual([]);
});

test('a watcher that was blocked itself reports no host', async () => {
  await second(true);
  for (let i = 0; i < 4; i++) await second(false, 30_000);
  expect(hung).toEqual([]);
  await second(true);
  expect(pulse.problem).toBeNull();
});

test('signs that arrive in pieces are put together', async () => {
  for (let i = 0; i < 30; i++) {
    signs.write(`${i} ${i} `);
    await second(false);
    signs.write(`0 ${i * 100}\n`);
    await second(false);
  }
  expect(hung).toEqual([]);
});

import { expect, test } from 'vitest';

import { ClockWatch } from './clock-watch.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const START = Date.UTC(2026, 0, 1);

/** A machine whose clock and monotonic clock drift apart. */
function machine({ trustedAt = START as number | null, isTrusted = false } = {}) {
  const state = { now: START, elapsed: 0, trustedAt };
  const logged: string[] = [];
  const start = () =>
    new ClockWatch({
      clock: {
        now: () => state.now,
        lastTrusted: async () => state.trustedAt,
        trust: async (at) => void (state.trustedAt = at),
      },
      isTrusted,
      monotonic: () => state.elapsed,
      log: (line) => logged.push(line),
    });
  const pass = (ms: number) => {
    state.now += ms;
    state.elapsed += ms;
  };
  return { state, logged, start, pass };
}

test.each([
  ['ahead', 25 * HOUR_MS],
  ['far ahead', 40 * DAY_MS],
  ['back', -40 * DAY_MS],
  ['at the beginning of time', -START],
])('a clock that starts %s is waited for, and trusted after a day in which it is steady', async (_name, step) => {
  const { state, logged, start, pass } = machine();
  state.now += step;
  const watch = start();
  for (let hour = 0; hour < 24; hour++) {
    expect(await watch.read()).toBeNull();
    pass(HOUR_MS);
  }
  expect(state.trustedAt).toBe(START);
  expect(await watch.read()).toBe(state.now);
  expect([watch.notice, state.trustedAt]).toEqual([null, state.now]);
  expect(logged).toHaveLength(2);
});

test('a step of less than a day is a service that was off, and a database without rows trusts any clock', async () => {
  const { state, start } = machine();
  state.now += 23 * HOUR_MS;
  expect(await start().read()).toBe(state.now);
  state.trustedAt = null;
  state.now = 0;
  expect(await start().read()).toBe(0);
});

test('a clock that jumps while the service runs is distrusted, and trusted at once when it is back', async () => {
  const { state, start, pass } = machine();
  const watch = start();
  expect(await watch.read()).toBe(START);
  pass(HOUR_MS);
  state.now += 40 * DAY_MS;
  expect(await watch.read()).toBeNull();
  pass(5 * HOUR_MS);
  state.now -= 40 * DAY_MS;
  expect(await watch.read()).toBe(START + 6 * HOUR_MS);
});

test('a clock that keeps jumping is not steady, nor is it after a restart of the service', async () => {
  const { state, start, pass } = machine();
  let watch = start();
  for (let jump = 1; jump <= 5; jump++) {
    state.now += 3 * DAY_MS;
    expect(await watch.read()).toBeNull();
    pass(20 * HOUR_MS);
    expect(await watch.read()).toBeNull();
  }
  watch = start();
  pass(20 * HOUR_MS);
  expect(await watch.read()).toBeNull();
});

test('an operator may confirm that the clock is right', async () => {
  const { state, start } = machine({ isTrusted: true });
  state.now += 40 * DAY_MS;
  const watch = start();
  expect([await watch.read(), watch.notice]).toEqual([state.now, null]);
});

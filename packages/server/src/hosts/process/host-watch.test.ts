import { describe, expect, test } from 'vitest';

import { HostWatch, type LifeSign, type WatchLimits } from './host-watch.ts';

const LIMITS: WatchLimits = { firstSignMs: 300_000, silenceMs: 15_000, idleMs: 120_000, turnMs: 1_200_000 };

/**
 * Watches a host for some seconds; `sign` returns its sign in each, null = none.
 * @returns when and why it is ended
 */
function watched(
  numSeconds: number,
  sign: (second: number) => Partial<LifeSign> | null,
  isReady = true,
): { second: number; reason: string } | null {
  const watch = new HostWatch(LIMITS);
  for (let second = 0; second < numSeconds; second++) {
    const says = sign(second);
    if (says !== null) watch.record({ numTurns: second, numSlices: second, isInSlice: false, cpuMs: 0, ...says });
    const reason = watch.passed(1000, isReady);
    if (reason !== null) return { second, reason };
  }
  return null;
}

const DAY = 24 * 3600;

describe('a host that works', () => {
  test('idle for a day', () => {
    expect(watched(DAY, () => ({ numSlices: 0 }))).toBeNull();
  });

  test('computes for a day, slice after slice', () => {
    expect(watched(DAY, (second) => ({ isInSlice: true, cpuMs: second * 2000 }))).toBeNull();
  });

  test('takes ten minutes for one turn, with its main thread blocked', () => {
    const turn = (second: number) => Math.floor(second / 600);
    expect(
      watched(DAY, (second) => ({
        numTurns: turn(second),
        numSlices: turn(second),
        isInSlice: true,
        cpuMs: second * 5, // it gets only a two-hundredth of a core
      })),
    ).toBeNull();
  });

  test('waits for the cores for a day while another has them', () => {
    expect(watched(DAY, () => ({ numSlices: 7, isInSlice: false }))).toBeNull();
  });

  test('loads and converts a large model for an hour before it is ready', () => {
    expect(watched(3600, (second) => ({ numTurns: 0, numSlices: 0, cpuMs: second * 900 }), false)).toBeNull();
  });

  test('reads a model from a slow disk for a minute and a half, almost without computing', () => {
    expect(watched(90, () => ({ numTurns: 0, numSlices: 0, cpuMs: 5 }), false)).toBeNull();
  });

  test('takes minutes until its first sign, on a machine that is busy otherwise', () => {
    expect(watched(600, (second) => (second < 290 ? null : {}), false)).toBeNull();
  });

  test('is heard late now and then', () => {
    expect(watched(DAY, (second) => (second % 15 === 0 ? {} : null))).toBeNull();
  });
});

describe('a host that hangs', () => {
  test('stopped: it is ended when it was silent for too long', () => {
    expect(watched(60, (second) => (second < 20 ? {} : null))).toEqual({
      second: 34,
      reason: 'it gave no sign of life for 16 s',
    });
  });

  test('waits in a turn for something that never comes, without progress or computing', () => {
    expect(watched(600, (second) => ({ numSlices: 1, isInSlice: true, numTurns: second }))?.reason).toBe(
      'it made no progress and used no CPU for 121 s',
    );
    expect(watched(600, () => ({ numTurns: 1 }))?.reason).toContain('made no progress');
  });

  test('computes in one turn for ever', () => {
    const computes = (second: number) => ({ numSlices: 1, isInSlice: true, cpuMs: second * 2000 });
    expect(watched(DAY, computes)?.reason).toContain('one turn on the cores');
    expect(watched(DAY, (second) => ({ ...computes(second), isInSlice: false, numTurns: 1 }))?.reason).toContain(
      'read no message',
    );
  });

  test('never gives a first sign', () => {
    expect(watched(600, () => null, false)?.second).toBe(300);
  });
});

test('a host that is ready must send signs of life, also before its first one', () => {
  const watch = new HostWatch(LIMITS);
  for (let second = 0; second < 200; second++) expect(watch.passed(1000, false)).toBeNull();
  for (let second = 0; second < 15; second++) expect(watch.passed(1000, true)).toBeNull();
  expect(watch.passed(1000, true)).toContain('no sign of life for 16 s');
});

test('silence is reported before any action, and not after it ends', () => {
  const watch = new HostWatch(LIMITS);
  const sign = { numTurns: 1, numSlices: 1, isInSlice: true, cpuMs: 1 };
  watch.record(sign);
  watch.passed(5_000, true);
  expect(watch.problem).toBeNull();
  watch.passed(2_000, true);
  expect(watch.problem).toBe('no sign of life for 7 s');
  watch.record(sign);
  expect(watch.problem).toBeNull();
});

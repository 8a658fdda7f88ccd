import { expect, test } from 'vitest';
import { LaneProgress } from './lane-progress.ts';

test('a stop is final until the next pass, despite pauses and grants', () => {
  const progress = LaneProgress.create(2);
  progress.reset();
  progress.pause();
  expect(progress.tryBegin(1)).toBe(false);
  progress.stop();
  progress.pause();
  progress.grant();
  expect(progress.isStopped).toBe(true);
  expect(progress.tryBegin(1)).toBe(false);
  expect(progress.isAnotherComputing()).toBe(false);
  progress.reset();
  expect(progress.tryBegin(1)).toBe(true);
  expect(progress.isAnotherComputing()).toBe(true);
  progress.end(1);
  expect(progress.isAnotherComputing()).toBe(false);
});

test('a step waits for the lanes it names, and only for those', () => {
  const progress = LaneProgress.create(3);
  progress.reset();
  const lower = [{ lanes: 'lower', step: 0 }] as const;
  const higher = [{ lanes: 'higher', step: 0 }] as const;
  expect([0, 1, 2].map((lane) => progress.isReady(lane, lower))).toEqual([true, false, false]);
  progress.endStep(0);
  expect([0, 1, 2].map((lane) => progress.isReady(lane, lower))).toEqual([true, true, false]);
  expect([0, 1, 2].map((lane) => progress.isReady(lane, higher))).toEqual([false, false, true]);
});

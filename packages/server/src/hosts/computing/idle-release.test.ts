import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { IdleRelease } from './idle-release.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a use that takes longer than the wait is given back after its end, once', () => {
  const release = vi.fn<() => void>();
  const idle = new IdleRelease(1000, release);
  idle.begin();
  vi.advanceTimersByTime(5000);
  expect(release).not.toHaveBeenCalled();
  idle.end();
  vi.advanceTimersByTime(999);
  expect(release).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(release).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(5000);
  expect(release).toHaveBeenCalledTimes(1);
});

test('the wait starts over with each use, and not before the last of several has ended', () => {
  const release = vi.fn<() => void>();
  const idle = new IdleRelease(1000, release);
  idle.begin();
  idle.begin();
  idle.end();
  vi.advanceTimersByTime(5000);
  idle.end();
  vi.advanceTimersByTime(600);
  idle.begin();
  idle.end();
  vi.advanceTimersByTime(600);
  expect(release).not.toHaveBeenCalled();
  vi.advanceTimersByTime(400);
  expect(release).toHaveBeenCalledTimes(1);
});

import type { Store } from '@trainyard/store';
import { expect, onTestFinished, test, vi } from 'vitest';

import { Upkeep } from './upkeep.ts';

test('what has expired is removed every ten minutes, also after a time that failed, until it is stopped', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const logged: string[] = [];
  const purgeExpired = vi.fn<Store['purgeExpired']>(async () => {
    if (purgeExpired.mock.calls.length === 2) throw new Error('the store is busy');
    return { numModels: 0, numRequests: 0 };
  });
  const upkeep = new Upkeep({ purgeExpired }, (line) => logged.push(line));
  upkeep.start();
  await vi.advanceTimersByTimeAsync(30 * 60_000);
  expect(purgeExpired).toHaveBeenCalledTimes(3);
  expect(logged).toEqual(['what has expired stays for now: the store is busy']);
  await upkeep.stop();
  await vi.advanceTimersByTimeAsync(60 * 60_000);
  expect(purgeExpired).toHaveBeenCalledTimes(3);
});

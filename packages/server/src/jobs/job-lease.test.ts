import { expect, test, vi } from 'vitest';

import { JobLease } from './job-lease.ts';

test('a lease ends when its time is over, also while the answer to its renewal never comes', async () => {
  vi.useFakeTimers();
  try {
    const lease = new JobLease({
      name: 'job 1',
      renew: () => new Promise(() => undefined),
      isHeld: () => new Promise(() => undefined),
      leaseMs: 30_000,
      heartbeatMs: 10_000,
      now: () => Date.now(),
      log: () => undefined,
    });
    await vi.advanceTimersByTimeAsync(29_999);
    expect(lease.signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(lease.signal.reason).toMatchObject({ code: 'store.lease_lost' });
    lease.stop();
  } finally {
    vi.useRealTimers();
  }
});

import type { Clock } from '../transport/clock.ts';

/** Advances only by sleeps: nothing waits, and endless waits reach their time-out. */
export function instantClock(): Clock & { readonly slept: number[]; beat(): void } {
  let now = 0;
  const slept: number[] = [];
  const repeated = new Set<() => void>();
  return {
    slept,
    now: () => now,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      slept.push(ms);
      now += ms;
    },
    every: (_ms, work) => {
      repeated.add(work);
      return () => void repeated.delete(work);
    },
    beat: () => {
      now += 10_000;
      for (const work of repeated) work();
    },
  };
}

import type { Clock } from '../transport/clock.ts';

/** Time that passes as it is slept: nothing waits, and whoever would wait for ever comes to the end of their patience. */
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

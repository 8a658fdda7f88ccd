import { describe, expect, it } from 'vitest';
import { ThreadGovernor } from './thread-governor.ts';

/**
 * Runs decodes of 50 ms; `lost` of the threads in use are descheduled, and every tenth decode reports
 * `idleCores`.
 */
function run(
  governor: ThreadGovernor,
  [fromMs, untilMs]: readonly [number, number],
  lost: number,
  idleCores: number | null = null,
): number {
  let nowMs = fromMs;
  for (; nowMs < untilMs; nowMs += 50) {
    const { numThreads } = governor;
    const cpuMs = 50 * (numThreads === 1 ? 1 : numThreads - lost);
    governor.observe({ nowMs, wallMs: 50, cpuMs, idleCores: nowMs % 500 === 0 ? idleCores : null });
  }
  return nowMs;
}

describe('ThreadGovernor', () => {
  it('keeps all threads while they get their time', () => {
    const governor = new ThreadGovernor(4);
    run(governor, [0, 10_000], 0.1);
    expect(governor.numThreads).toBe(4);
  });

  it('gives one up when threads are descheduled, and takes it back when the cores are free again', () => {
    const governor = new ThreadGovernor(2);
    const busyUntil = run(governor, [0, 1_000], 0.8);
    expect(governor.numThreads).toBe(1);
    run(governor, [busyUntil, busyUntil + 3_000], 0);
    expect(governor.numThreads).toBe(2);
  });

  it('tries again ever less often while the cores stay busy', () => {
    const governor = new ThreadGovernor(2);
    let numTrials = 0;
    let before = governor.numThreads;
    for (let nowMs = 0; nowMs < 120_000; nowMs += 50) {
      run(governor, [nowMs, nowMs + 50], 0.8);
      if (governor.numThreads > before) numTrials++;
      before = governor.numThreads;
    }
    // After 2, 4, 8, 16, 32, 60 seconds.
    expect(numTrials).toBe(5);
    expect(governor.numThreads).toBe(1);
  });

  it('has all threads again within a second of the end of the contention, however long that took', () => {
    const governor = new ThreadGovernor(2);
    const busyUntil = run(governor, [0, 300_000], 0.8, 0.1);
    run(governor, [busyUntil, busyUntil + 1_000], 0, 0.9);
    expect(governor.numThreads).toBe(2);
  });

  it('tries idle cores ever less often if they are out of reach', () => {
    const governor = new ThreadGovernor(2);
    let numTrials = 0;
    let before = governor.numThreads;
    for (let nowMs = 0; nowMs < 120_000; nowMs += 50) {
      run(governor, [nowMs, nowMs + 50], 0.8, 1);
      if (governor.numThreads > before) numTrials++;
      before = governor.numThreads;
    }
    expect(numTrials).toBeLessThan(12);
    const busyUntil = run(governor, [120_000, 240_000], 0.8, 1);
    const freeUntil = run(governor, [busyUntil, busyUntil + 61_000], 0, 1);
    expect(governor.numThreads).toBe(2);
    // After a successful try idle cores count again.
    const again = run(governor, [freeUntil, freeUntil + 10_000], 0.8, 0);
    run(governor, [again, again + 1_000], 0, 0.9);
    expect(governor.numThreads).toBe(2);
  });

  it('goes down step by step on many cores, and never below one', () => {
    const governor = new ThreadGovernor(8);
    run(governor, [0, 1_500], 0.9);
    expect(governor.numThreads).toBeLessThan(8);
    run(new ThreadGovernor(1), [0, 5_000], 1);
    const alone = new ThreadGovernor(1);
    expect(alone.observe({ nowMs: 0, wallMs: 100, cpuMs: 10, idleCores: 1 })).toBeNull();
    expect(alone.numThreads).toBe(1);
  });

  it('draws no conclusion from decodes too short to measure', () => {
    const governor = new ThreadGovernor(2);
    for (let nowMs = 0; nowMs < 1_000; nowMs++) governor.observe({ nowMs, wallMs: 1, cpuMs: 0.5, idleCores: null });
    expect(governor.numThreads).toBe(2);
  });
});

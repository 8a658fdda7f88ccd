import { Worker } from 'node:worker_threads';

const MODULE = new URL('./arrival-clock.ts', import.meta.url);
/** Time for the thread to start. */
const LEAD_MS = 200;

/** Times of a Poisson process, ms. */
export function arrivals({ rate, seconds, seed }: { rate: number; seconds: number; seed: number }): number[] {
  const times: number[] = [];
  let state = seed >>> 0;
  for (let at = 0; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    at += (-Math.log((state + 1) / 2 ** 32) * 1000) / rate;
    if (at >= 1000 * seconds) return times;
    times.push(at);
  }
}

/**
 * Calls `act` at each of the times (ms from the start, ascending) with its delay, ms. Node's timers fire at
 * whole milliseconds, all due ones together: at 500 per second two of five would be sent together with
 * another, and wait for it at the server. So another thread keeps the time.
 * @returns the start on the clock of `performance.now()`, after the last call
 */
export async function atTimes(due: readonly number[], act: (lateMs: number) => void): Promise<number> {
  const startAt = performance.now() + LEAD_MS;
  const clock = new Worker(MODULE, { workerData: { due, startAt: performance.timeOrigin + startAt } });
  await new Promise<void>((resolve, reject) => {
    let next = 0;
    clock.on('message', () => act(performance.now() - startAt - due[next++]!));
    clock.once('error', reject);
    clock.once('exit', () => resolve());
  });
  return startAt;
}

/** The thread of `arrivals.ts`: sleeps until each time and says so. */
import { parentPort, workerData } from 'node:worker_threads';

const { due, startAt } = workerData as { due: readonly number[]; startAt: number };
const port = parentPort!;
const nothing = new Int32Array(new SharedArrayBuffer(4));
const now = () => performance.timeOrigin + performance.now();

for (const at of due) {
  // Nobody wakes it: this is the only sleep here that ends within less than a millisecond of its time.
  const left = startAt + at - now();
  if (left > 0) Atomics.wait(nothing, 0, 0, left);
  port.postMessage(null);
}

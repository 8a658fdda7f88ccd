/** Thread of `arrivals.ts`: sleeps until each time and reports it. */
import { parentPort, workerData } from 'node:worker_threads';

const { due, startAt } = workerData as { due: readonly number[]; startAt: number };
const port = parentPort!;
const nothing = new Int32Array(new SharedArrayBuffer(4));
const now = () => performance.timeOrigin + performance.now();

for (const at of due) {
  // Never notified: this is the only sleep that ends within less than a millisecond of its time.
  const left = startAt + at - now();
  if (left > 0) Atomics.wait(nothing, 0, 0, left);
  port.postMessage(null);
}

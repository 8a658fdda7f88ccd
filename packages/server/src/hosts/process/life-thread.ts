/** Thread that sends a host's signs of life: the numbers of `LifeSign`, one line per second. */
import { Socket } from 'node:net';
import { workerData } from 'node:worker_threads';

import { LIFE_SIGN_MS, LIFE_SIGNS_FD, MARKS } from './life-signs.ts';

const marks = workerData as Int32Array;
const line = new Socket({ fd: LIFE_SIGNS_FD, readable: false, writable: true });
// The other end is gone, so this process ends soon.
line.on('error', () => undefined);

function send(): void {
  // A stopped reader does not need a backlog.
  if (line.writableNeedDrain) return;
  const { user, system } = process.cpuUsage();
  const [turns, slices, isInSlice] = [MARKS.turns, MARKS.slices, MARKS.isInSlice].map((at) => Atomics.load(marks, at));
  line.write(`${turns} ${slices} ${isInSlice} ${Math.round((user + system) / 1000)}\n`);
}

send();
setInterval(send, LIFE_SIGN_MS);

import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { afterComputing } from './compute-time-limit.ts';

const LIMIT_MS = 40;

/** A thread that is told to begin; it says that it runs before. */
async function thread(work: string): Promise<Worker> {
  const source = `const { parentPort } = require('node:worker_threads');
    parentPort.on('message', () => { ${work} });
    parentPort.postMessage('ready');`;
  const worker = new Worker(source, { eval: true });
  await once(worker, 'message');
  return worker;
}

const usedMs = async (worker: Worker): Promise<number> => {
  const { user, system } = await worker.cpuUsage();
  return (user + system) / 1000;
};

test('a thread that computes is given its time of computing, however long that takes', async () => {
  const worker = await thread('for (;;) {}');
  const before = await usedMs(worker);
  const used = new Promise<number>((settle) => {
    afterComputing(worker, LIMIT_MS, () => void usedMs(worker).then((after) => settle(after - before)));
  });
  worker.postMessage('begin');
  const ms = await used;
  console.log(`ended after ${ms.toFixed(0)} ms of computing, limit ${LIMIT_MS} ms`);
  // One in want of a core may be given up sooner: at ten times the limit.
  expect(ms).toBeGreaterThan(LIMIT_MS / 10);
  await worker.terminate();
});

test('a thread that does not get to compute is given up at ten times the limit', async () => {
  const worker = await thread('Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);');
  const begin = performance.now();
  const ended = new Promise<number>((settle) => {
    afterComputing(worker, LIMIT_MS, () => settle(performance.now() - begin));
  });
  worker.postMessage('begin');
  expect(await ended).toBeGreaterThan(9.9 * LIMIT_MS);
  await worker.terminate();
});

test('who is done takes the call back', async () => {
  const worker = await thread('for (;;) {}');
  let numCalls = 0;
  const cancel = afterComputing(worker, LIMIT_MS, () => numCalls++);
  worker.postMessage('begin');
  cancel();
  await delay(12 * LIMIT_MS);
  expect(numCalls).toBe(0);
  await worker.terminate();
});

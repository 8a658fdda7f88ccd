import { expect, test } from 'vitest';

import { WorkLoop } from './work-loop.ts';

const turn = () => new Promise((resolve) => setTimeout(resolve, 20));

function loopOver(work: (() => boolean)[]): { loop: WorkLoop; logged: string[]; calls: () => number } {
  const logged: string[] = [];
  let numCalls = 0;
  const loop = new WorkLoop({
    name: 'tester',
    pollMs: 60_000,
    workOnce: async () => work[numCalls++]?.() ?? false,
    log: (line) => logged.push(line),
  });
  return { loop, logged, calls: () => numCalls };
}

test('takes one piece after the other, then waits to be notified', async () => {
  const { loop, calls } = loopOver([() => true, () => true]);
  loop.start();
  await turn();
  expect(calls()).toBe(3);
  loop.notify();
  await turn();
  expect(calls()).toBe(4);
  await loop.stop();
  expect(calls()).toBe(4);
});

test('logs a failure and pauses, despite notifications; a stop ends the pause', async () => {
  const { loop, logged, calls } = loopOver([
    () => {
      loop.notify();
      throw new Error('the disk is full');
    },
  ]);
  loop.start();
  await turn();
  expect([calls(), logged]).toEqual([1, ['tester: the disk is full']]);
  await loop.stop();
});

test('does nothing once it is stopped', async () => {
  const { loop, calls } = loopOver([]);
  await loop.stop();
  loop.start();
  await turn();
  expect(calls()).toBe(0);
});

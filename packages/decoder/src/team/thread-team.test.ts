import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { awaitUnits, helpWith, takeUnits, TEAM_CELL, ThreadTeam } from './thread-team.ts';

function work(numUnits: number) {
  const cells = new Int32Array(new SharedArrayBuffer(4 * Object.keys(TEAM_CELL).length));
  cells[TEAM_CELL.remaining] = numUnits;
  return { cells, reason: new Uint8Array(new SharedArrayBuffer(100)) };
}

test('units are computed once each, and are all done then', () => {
  const { cells } = work(5);
  const computed: number[] = [];
  takeUnits(cells, (unit) => computed.push(unit));
  expect(computed).toEqual([4, 3, 2, 1, 0]);
  expect(cells[TEAM_CELL.done]).toBe(5);
});

test('a unit that fails ends the work of a helper: the rest counts as done, and the reason is told', () => {
  const data = work(5);
  const computed: number[] = [];
  helpWith(data, (unit) => {
    if (unit === 3) throw new RangeError('no such room, ä');
    computed.push(unit);
  });
  expect(computed).toEqual([4]);
  expect([data.cells[TEAM_CELL.done], data.cells[TEAM_CELL.remaining], data.cells[TEAM_CELL.failed]]).toEqual([
    5, 0, 1,
  ]);
  const length = (data.reason[0]! << 8) + data.reason[1]!;
  expect(Buffer.from(data.reason.slice(2, 2 + length)).toString()).toBe('RangeError: no such room, ä');
});

test.each([
  ['woken', true],
  ['looking again by itself', false],
])('units of a thread that is held up are waited for in sleep, %s', async (_, wakes) => {
  const { cells } = work(0);
  const { done, isAwaited } = TEAM_CELL;
  // Held up until the calling thread sleeps.
  const program = `
    const { cells, wakes } = require('node:worker_threads').workerData;
    while (Atomics.load(cells, ${isAwaited}) === 0);
    Atomics.add(cells, ${done}, 1);
    if (wakes) Atomics.notify(cells, ${done});`;
  const worker = new Worker(program, { eval: true, workerData: { cells, wakes } });
  awaitUnits(cells, 1);
  expect([cells[done], cells[isAwaited]]).toEqual([1, 0]);
  await worker.terminate();
});

test('a unit that fails on the calling thread is its failure, and the next work is whole', () => {
  const team = new ThreadTeam(1);
  const computed: number[] = [];
  const fail = (unit: number) => {
    if (unit === 1) throw new RangeError('here');
    computed.push(unit);
  };
  expect(() => team.run(0, 3, true, fail)).toThrow('here');
  team.run(0, 2, true, (unit) => void computed.push(unit));
  expect(computed).toEqual([2, 1, 0]);
  team.close();
});

import { Worker } from 'node:worker_threads';
import { expect, test, vi } from 'vitest';
import { type PackedProductWorkData, PRODUCT_CELL } from '../packed/packed-product-work.ts';
import { WASM_FORMATS } from '../packed/weight-formats.ts';
import { sharedMemory } from '../wasm/web-assembly.ts';
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

test('a failing unit ends the work of a helper: the rest counts as done, and the reason is reported', () => {
  const data = work(5);
  const computed: number[] = [];
  helpWith(data, (unit) => {
    if (unit === 3) throw new RangeError('no such room, ä');
    computed.push(unit);
  });
  expect(computed).toEqual([4]);
  expect([data.cells[TEAM_CELL.done], data.cells[TEAM_CELL.remaining], data.cells[TEAM_CELL.hasFailed]]).toEqual([
    5, 0, 1,
  ]);
  const message = () => Buffer.from(data.reason.slice(2, 2 + (data.reason[0]! << 8) + data.reason[1]!)).toString();
  expect(message()).toBe('RangeError: no such room, ä');
  // Another thread's failure in the same work does not overwrite it.
  data.cells[TEAM_CELL.remaining] = 1;
  helpWith(data, () => {
    throw new Error('neither here');
  });
  expect(message()).toBe('RangeError: no such room, ä');
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

test('a wait for a stalled thread polls now and then, and does not look like computing', async () => {
  const { cells } = work(0);
  const program = `
    const { workerData: cells } = require('node:worker_threads');
    while (Atomics.load(cells, ${TEAM_CELL.isAwaited}) === 0);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
    Atomics.add(cells, ${TEAM_CELL.done}, 1);
    Atomics.notify(cells, ${TEAM_CELL.done});`;
  const worker = new Worker(program, { eval: true, workerData: cells });
  const looked = vi.spyOn(Atomics, 'wait');
  awaitUnits(cells, 1);
  // One check per millisecond would make a thousand.
  expect(looked.mock.calls.length).toBeLessThan(50);
  looked.mockRestore();
  await worker.terminate();
});

test('after units that failed on several threads at once the next work is whole', () => {
  const team = new ThreadTeam(2);
  const memory = sharedMemory(1);
  const cells = new Float64Array(new SharedArrayBuffer(8 * Object.keys(PRODUCT_CELL).length));
  // The format does not exist, so the other thread's unit fails.
  cells.set([WASM_FORMATS.length, 1], PRODUCT_CELL.format);
  const failing = team.add({
    kind: 'packed-product',
    data: { memory, cells, instructions: null } satisfies PackedProductWorkData,
  });
  const sleep = (ms: number) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  const failureOf = (compute: (unit: number) => void): string => {
    try {
      team.run(failing, 2, true, compute);
      return '';
    } catch (error) {
      return String(error);
    }
  };
  const until = (wanted: string, compute: (unit: number) => void) => {
    for (let i = 0; !failureOf(compute).startsWith(wanted); i++) expect(i).toBeLessThan(1000);
  };
  // A thread takes some time to start.
  until('Error: a thread failed: TypeError', () => sleep(20));
  // The other thread may fail and leave no units before this one starts.
  until('Error: here', () => {
    sleep(500);
    throw new Error('here');
  });
  const computed: number[] = [];
  team.run(failing, 1, false, (unit) => void computed.push(unit));
  expect(computed).toEqual([0]);
  team.close();
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

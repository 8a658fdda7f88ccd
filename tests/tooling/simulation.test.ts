/** The simulation of `npm run lab -- simulate`, compared with closed-form results. */
import { expect, test } from 'vitest';

import { AdapterCache } from '../../bench/simulate/adapter-cache.ts';
import { EventQueue } from '../../bench/simulate/event-queue.ts';
import type { MeasuredTimes } from '../../bench/simulate/measured-times.ts';
import { SamplingServer } from '../../bench/simulate/sampling-server.ts';
import { seededRandom } from '@trainyard/trainer/testing';
import { fleetFor, simulateLoad, simulateLoops } from '../../bench/simulate/simulate.ts';
import { TrainerPool } from '../../bench/simulate/trainer-pool.ts';

const NUM_JOBS = 200_000;
const TIMES: MeasuredTimes = {
  stepSeconds: 0.02,
  sequenceSeconds: 0.001,
  promptTokenSeconds: 0.0005,
  adapterSeconds: 0.5,
  jobSeconds: 2,
  trajectorySeconds: 0.1,
  sharedSpeed: { sampling: 1, training: 1 },
};
const SHAPE = { numGroups: 2, groupSize: 4, promptTokens: 100, replyTokens: 50 };

/** Mean wait of jobs with random arrivals for one trainer. */
function meanWait(arrivalsPerSecond: number, secondsOfJob: (random: () => number) => number): number {
  const random = seededRandom(7);
  const events = new EventQueue();
  const pool = new TrainerPool(events, 1);
  let [total, numDone, numCome] = [0, 0, 0];
  const arrive = (): void => {
    pool.submit(secondsOfJob(random), (waited) => {
      total += waited;
      numDone++;
    });
    if (++numCome < NUM_JOBS) events.plan(events.now - Math.log(1 - random()) / arrivalsPerSecond, arrive);
  };
  events.plan(0, arrive);
  events.run();
  expect(numDone).toBe(NUM_JOBS);
  return total / numDone;
}

test.each([0.5, 0.8])('with jobs of equal length a queue at a utilisation of %s waits as M/D/1 does', (use) => {
  // Pollaczek and Khinchine: use / (2 (1 - use)) job lengths.
  const expected = use / (2 * (1 - use));
  expect(Math.abs(meanWait(use, () => 1) / expected - 1)).toBeLessThan(0.05);
});

test.each([0.5, 0.8])('with jobs of exponential lengths a queue at a utilisation of %s waits as M/M/1 does', (use) => {
  const expected = use / (1 - use);
  expect(Math.abs(meanWait(use, (random) => -Math.log(1 - random())) / expected - 1)).toBeLessThan(0.05);
});

test('events happen in order of time, and simultaneous ones in the order of the plans', () => {
  const events = new EventQueue();
  const seen: number[] = [];
  const random = seededRandom(1);
  const times = Array.from({ length: 500 }, () => Math.floor(random() * 50));
  for (const [index, at] of times.entries()) events.plan(at, () => seen.push(index));
  events.run();
  const expected = [...times.keys()].toSorted((a, b) => times[a]! - times[b]! || a - b);
  expect(seen).toEqual(expected);
});

test('sequences of a server share its steps, prompts come first, and those above its capacity wait', () => {
  const events = new EventQueue();
  const server = new SamplingServer({ events, times: TIMES, maxSequences: 8, maxAdapters: 4 });
  const ends: [name: string, at: number, waited: number][] = [];
  const submit = (name: string, numSequences: number, replyTokens: number): void =>
    server.submit({
      adapter: null,
      numSequences,
      promptTokens: 100,
      replyTokens,
      onDone: (waited) => ends.push([name, Number(events.now.toFixed(6)), Number(waited.toFixed(6))]),
    });
  submit('short', 4, 10);
  submit('long', 4, 20);
  submit('late', 8, 10);
  events.run();
  // Two prompts of 0.05 s; ten steps of eight sequences, ten of four; then the last one by itself.
  const first = 0.1 + 10 * 0.028;
  const second = first + 10 * 0.024;
  expect(ends.map(([name, at, waited]) => [name, at, waited])).toEqual([
    ['short', Number(first.toFixed(6)), 0],
    ['long', Number(second.toFixed(6)), 0],
    ['late', Number((second + 0.05 + 10 * 0.028).toFixed(6)), Number(second.toFixed(6))],
  ]);
  expect(server.busySeconds).toBeCloseTo(ends[2]![1], 5);
});

test('an adapter is loaded once for concurrent requests, and the least recently used one is evicted', () => {
  const cache = new AdapterCache(2);
  expect([cache.use('a', 0, 5), cache.use('a', 1, 5), cache.use('b', 6, 5)]).toEqual([5, 5, 11]);
  cache.use('a', 12, 5);
  expect(cache.use('c', 13, 5)).toBe(18);
  expect(cache.use('a', 20, 5)).toBe(20);
  expect(cache.use('b', 21, 5)).toBe(26);
  expect([cache.numHits, cache.numMisses]).toEqual([3, 4]);
});

test('the time of a single training model is the sum of its parts, and on one machine two slow each other down', () => {
  const fleet = { numServers: 1, numTrainers: 1, maxSequences: 64, maxAdapters: 4 };
  const alone = simulateLoops(1, 3, { times: TIMES, shape: SHAPE, fleet, seed: 1 });
  // Each step: its adapter, two prompts, fifty steps of eight sequences, the job.
  expect(alone.seconds).toBeCloseTo(3 * (0.5 + 0.1 + 50 * 0.028 + 2.8), 6);
  expect(alone).toMatchObject({ numRollouts: 24, adapterMissShare: 0.5, trainingWaits: [0, 0, 0] });
  const sharedSpeed = { sampling: 0.5, training: 0.5 };
  const two = (times: MeasuredTimes) => simulateLoops(2, 3, { times, shape: SHAPE, fleet, seed: 1 }).seconds;
  expect(two({ ...TIMES, sharedSpeed })).toBeGreaterThan(two(TIMES));
});

test('the same seed gives the same figures; more models wait longer and miss more adapters', () => {
  const limits = { maxSequences: 64, maxAdapters: 4 };
  const options = { times: TIMES, shape: SHAPE, seed: 3 };
  const load = { numModels: 100, runsPerDay: 10, stepsPerRun: 20, chatsPerDay: 1000 };
  const fleet = fleetFor(load, options, limits, 0.5);
  const predict = (numModels: number) => simulateLoad({ ...load, numModels }, 500, { ...options, fleet });
  const [few, many] = [predict(50), predict(150)];
  expect(predict(50)).toEqual(few);
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  expect(mean(many.trainingWaits)).toBeGreaterThan(mean(few.trainingWaits));
  expect(many.adapterMissShare).toBeGreaterThan(few.adapterMissShare);
  expect(many.trainingUse).toBeLessThanOrEqual(1);
});

import fc from 'fast-check';
import { expect, test } from 'vitest';

import type { ChartLine } from './chart-line.ts';
import { discardedInView } from './chart-columns.ts';
import { placesOf, toCsv } from './csv.ts';
import { lineOf, lineWithDeviation } from './series-lines.ts';
import { smooth } from './smooth.ts';

test('smoothing weighs each earlier value by the strength to the power of its age', () => {
  const values = fc.array(fc.double({ min: -1e3, max: 1e3, noNaN: true }), { maxLength: 30 });
  fc.assert(
    fc.property(values, fc.double({ min: 0, max: 0.99, noNaN: true }), (list, strength) => {
      const smoothed = smooth(list, strength);
      expect(smoothed).toHaveLength(list.length);
      list.forEach((_, at) => {
        const weights = list.slice(0, at + 1).map((_value, i) => strength ** (at - i));
        const sum = weights.reduce((total, weight, i) => total + weight * list[i]!, 0);
        expect(smoothed[at]).toBeCloseTo(sum / weights.reduce((total, weight) => total + weight), 6);
      });
    }),
  );
});

test('a table of lines has a row for each place, and names are escaped for spreadsheets', () => {
  const lines: ChartLine[] = [
    { name: '=SUM(A1)', color: 1, x: [1, 3], y: [0.5, 0.25] },
    { name: 'a "b", c', color: 2, x: [2, 3], y: [7, 8], band: { low: [6, 7], high: [8, 9] } },
  ];
  expect(placesOf(lines)).toEqual([1, 2, 3]);
  expect(toCsv('step', lines)).toBe(
    `step,'=SUM(A1),"a ""b"", c","a ""b"", c low","a ""b"", c high"\n1,0.5,,,\n2,,7,6,8\n3,0.25,8,7,9\n`,
  );
});

const series = (name: string, mean: number[], count: number[]) => ({
  name,
  first: [1, 3],
  last: [2, 4],
  count,
  mean,
  min: mean.map((value) => value - 1),
  max: mean.map((value) => value + 1),
  discarded: { at: [], value: [], job_id: [] },
});

test('a line has an area if a point merges several steps or a deviation is known', () => {
  const reward = series('train/reward', [0.5, 0.6], [2, 2]) as unknown as Parameters<typeof lineOf>[0];
  const single = series('train/reward', [0.5, 0.6], [1, 1]) as unknown as Parameters<typeof lineOf>[0];
  const deviation = series('train/reward_std_dev', [0.1, 0.2], [1, 1]) as unknown as Parameters<typeof lineOf>[0];
  expect(lineOf(reward, 1)).toMatchObject({ x: [2, 4], y: [0.5, 0.6], band: { low: [-0.5, -0.4], high: [1.5, 1.6] } });
  expect(lineOf(single, 1).band).toBeUndefined();
  const { band } = lineWithDeviation(single, deviation, 1, 'reward');
  expect(band?.low).toEqual([0.4, 0.6 - 0.2]);
  expect(band?.high).toEqual([0.6, 0.6 + 0.2]);
  expect(lineWithDeviation(single, undefined, 1, 'reward').band).toBeUndefined();
});

test('values of failed jobs are drawn where they are, and huge ones at the edge of the line', () => {
  const of = (y: number[], lost: number[]) =>
    discardedInView({ y, discarded: { x: lost.map((_, index) => index), y: lost, jobs: lost.map(String) } });
  expect(of([0.5325], [0.67, 0.2])).toEqual([0.67, 0.2]);
  expect(of([-0.02, 0.03], [7.57e32, -1e9, 0.05])).toEqual([0.03, -0.02, 0.05]);
  expect(of([], [7])).toEqual([7]);
});

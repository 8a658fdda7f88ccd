import { expect, test } from 'vitest';

import { agoOf, durationOf, etaSeconds, secondsOfDate, timeOf } from './times.ts';

test.each([
  [0, '0 s'],
  [59.4, '59 s'],
  [60, '1 min'],
  [200, '3 min 20 s'],
  [7500, '2 h 5 min'],
  [273_600, '3 d 4 h'],
])('%d seconds are %s', (seconds, text) => expect(durationOf(seconds)).toBe(text));

test('an elapsed time is shown by its largest unit', () => {
  expect(agoOf(1000, 1_000_500)).toBe('now');
  expect(agoOf(1000, 8_500_000)).toBe('2 h ago');
  expect(timeOf(0)).toBe('1970-01-01 00:00Z');
});

test('the rest takes as long as the finished part', () => {
  expect(etaSeconds(2, 8, 0, 10_000)).toBe(30);
  expect(etaSeconds(8, 8, 0, 10_000)).toBe(0);
  expect(etaSeconds(0, 8, 0, 10_000)).toBe(null);
  expect(etaSeconds(3, null, 0, 10_000)).toBe(null);
  expect(etaSeconds(3, 8, 11_000, 10_000)).toBe(null);
});

test.each([
  ['1970-01-02', 86_400],
  ['2028-02-29', 1_835_395_200],
  ['1970-01-01T01:00Z', 3_600],
  ['1970-01-01T00:00:30+00:00', 30],
  ['1970-01-01T02:00+02:00', 0],
  ['1970-01-01T02:00:00+0200', 0],
  ['1970-01-01 00:01Z', 60],
  ['1970-01-01T00:00:01.500Z', 1.5],
])('%s is so many seconds: %d', (text, seconds) => expect(secondsOfDate(text)).toBe(seconds));

test.each([
  '2027-02-31',
  '2027-13-01',
  '2027-00-10',
  '3000',
  '7',
  '',
  'yesterday',
  '1/2/2027',
  '2027-1-1',
  '2027-01-01T25:00Z',
])('%j is no date', (text) => expect(secondsOfDate(text)).toBeNull());

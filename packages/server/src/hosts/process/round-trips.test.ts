import { expect, test } from 'vitest';

import { RoundTrips } from './round-trips.ts';

test('an answer within the deadline gives its time; concurrent callers share one question', async () => {
  const trips = new RoundTrips(1e6);
  let numAsked = 0;
  const ask = (): boolean => {
    numAsked++;
    return true;
  };
  const both = Promise.all([trips.measure(ask), trips.measure(ask)]);
  trips.settle();
  for (const took of await both) expect(took).toBeGreaterThanOrEqual(0);
  expect(numAsked).toBe(1);
  const next = trips.measure(ask);
  trips.settle();
  expect(await next).not.toBeNull();
  expect(numAsked).toBe(2);
});

test('no answer within the deadline is null, and so for all callers until it comes', async () => {
  const trips = new RoundTrips(0);
  let numAsked = 0;
  const ask = (): boolean => {
    numAsked++;
    return true;
  };
  expect(await trips.measure(ask)).toBeNull();
  expect(await trips.measure(ask)).toBeNull();
  expect(numAsked).toBe(1);
  trips.settle();
  expect(await trips.measure(() => false)).toBeNull();
});

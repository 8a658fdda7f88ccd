import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Trainyard } from '../client.ts';

const HERE = Date.parse('2027-03-01T12:00:00.400Z');
const DAY_MS = 86_400_000;
beforeEach(() => void vi.useFakeTimers({ now: HERE }));
afterEach(() => void vi.useRealTimers());

/** A client of a service whose answers have these dates in turn. */
function answeredAt(...dates: (number | string | null)[]) {
  const left = [...dates];
  const fetch = async () => {
    const date = left.shift() ?? null;
    const text = typeof date === 'number' ? new Date(date).toUTCString() : date;
    return Response.json({ status: 'ok' }, { headers: text === null ? {} : { date: text } });
  };
  return new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch });
}

test('the time is that of the service, and its clock advances by itself', async () => {
  const client = answeredAt(HERE + DAY_MS);
  expect(client.now()).toBe(HERE);
  await client.service.health();
  expect(Math.abs(client.now() - (HERE + DAY_MS))).toBeLessThan(1000);
  vi.advanceTimersByTime(5000);
  expect(Math.abs(client.now() - (HERE + DAY_MS + 5000))).toBeLessThan(1000);
});

test.each([[HERE], [HERE - 900], [null], ['yesterday']])(
  'it is the local time if the service sends %s',
  async (date) => {
    const client = answeredAt(date);
    await client.service.health();
    expect(client.now()).toBe(HERE);
  },
);

test('an answer that was on its way for long sets nothing back, a clock that was set does', async () => {
  const client = answeredAt(HERE + DAY_MS, HERE + DAY_MS - 20_000, HERE);
  await client.service.health();
  const before = client.now();
  await client.service.health();
  expect(client.now()).toBe(before);
  await client.service.health();
  expect(client.now()).toBe(HERE);
});

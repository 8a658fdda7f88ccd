import { expect, test, vi } from 'vitest';

import { apiErrorOf, TrainyardConnectionError, TrainyardTimeoutError } from './errors.ts';
import { type Repeat, retryDelayMs } from './retry-policy.ts';

const refusal = (status: number, headers: Record<string, string> = {}) =>
  apiErrorOf(new Response('{}', { status, headers }), '{}');
const REPEATS: readonly Repeat[] = ['always', 'keyed', 'refused'];
const waits = (error: unknown, numRepeats = 0) =>
  REPEATS.map((repeat) => retryDelayMs(error, repeat, numRepeats, () => 0));

test('without an answer only requests that may run twice are repeated', () => {
  expect(waits(new TrainyardConnectionError('http://x', new Error('gone')))).toEqual([500, 500, null]);
  expect(waits(new TrainyardTimeoutError('http://x', 1))).toEqual([500, 500, null]);
});

test('a refusal of the service is repeated as its headers require', () => {
  expect(waits(refusal(503, { 'x-should-retry': 'true' }))).toEqual([500, 500, 500]);
  expect(waits(refusal(503, { 'x-should-retry': 'false' }))).toEqual([null, null, null]);
  expect(waits(refusal(409, { 'x-should-retry': 'true', 'retry-after': '1' }))).toEqual([1000, 1000, 1000]);
});

test.each([408, 429, 502, 503, 504])('a proxy that answers %d may have passed the request on', (status) => {
  expect(waits(refusal(status))).toEqual([500, 500, null]);
});

test.each([400, 401, 403, 404, 409, 422, 500])('%d of another program is final', (status) => {
  expect(waits(refusal(status))).toEqual([null, null, null]);
});

test('an error inside a stream is final', () => {
  expect(waits(refusal(200))).toEqual([null, null, null]);
});

test('the wait doubles to 8 s, less up to a quarter', () => {
  const error = refusal(503);
  const wait = (numRepeats: number, random: number) => retryDelayMs(error, 'always', numRepeats, () => random);
  expect([0, 1, 2, 3, 4, 5].map((numRepeats) => wait(numRepeats, 0))).toEqual([500, 1000, 2000, 4000, 8000, 8000]);
  expect(wait(1, 0.5)).toBe(875);
});

test('Retry-After may be seconds or a date, of at most a minute', () => {
  vi.useFakeTimers({ now: new Date('2026-01-01T00:00:00Z') });
  try {
    const after = (value: string) => retryDelayMs(refusal(429, { 'retry-after': value }), 'always', 0, () => 0);
    expect(after('7')).toBe(7000);
    expect(after('60')).toBe(60_000);
    expect(after('61')).toBe(null);
    expect(after('Thu, 01 Jan 2026 00:00:09 GMT')).toBe(9000);
    expect(after('Wed, 31 Dec 2025 23:59:00 GMT')).toBe(0);
    expect(after('soon')).toBe(500);
  } finally {
    vi.useRealTimers();
  }
});

import { PassThrough } from 'node:stream';

import type { FastifyRequest } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { BodyIntake, type BodyPace } from './body-intake.ts';
import { ByteBudget } from './byte-budget.ts';

const PACE: BodyPace = { windowBytes: 1_000, windowMs: 100, timeoutMs: 1_000, maxWaitMs: 50 };

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

/** A body that comes in chunks, in time controlled by the test. */
function incoming(budget: ByteBudget | null = null) {
  const payload = new PassThrough();
  let leave = (): void => undefined;
  const request = { headers: {}, caller: null, end: { isOver: false, onEnd: (act: () => void) => (leave = act) } };
  const body = new BodyIntake(PACE).open(request as unknown as FastifyRequest, payload, { limit: 1_000_000, budget });
  const end = body.bytes().then(
    (bytes) => bytes.length,
    (error: Error) => error.message,
  );
  const pass = async (ms: number, bytes: number): Promise<void> => {
    if (bytes > 0) payload.write(Buffer.alloc(bytes));
    // Lets written data be read before time passes.
    await new Promise((done) => setImmediate(done));
    await vi.advanceTimersByTimeAsync(ms);
    await new Promise((done) => setImmediate(done));
  };
  return { payload, body, end, pass, leave: () => leave() };
}

test('each window has to bring its bytes; those of the one before count no more', async () => {
  const { end, pass } = incoming();
  for (let window = 0; window < 3; window++) {
    await pass(60, 600);
    await pass(50, 500);
  }
  await pass(60, 300);
  await pass(60, 0);
  expect(await end).toMatch(/^The body arrived too slowly: 300 bytes in 0\.1 s, the minimum is 1000/);
});

test('a body that keeps the pace may take so long, and no longer', async () => {
  const { end, pass } = incoming();
  for (let window = 0; window < 10; window++) await pass(100, 2_000);
  expect(await end).toBe('The body was not received within 1 s; send it again');
});

test('a body that keeps the pace comes in whole', async () => {
  const { end, pass, payload } = incoming();
  for (let window = 0; window < 9; window++) await pass(100, 2_000);
  payload.end();
  expect(await end).toBe(18_000);
});

test('an unfinished body is released with its client, a whole one with its reader', async () => {
  const budget = new ByteBudget(10_000_000);
  const cut = incoming(budget);
  await cut.pass(1, 100_000);
  expect(budget.isWhole).toBe(false);
  cut.leave();
  expect(budget.isWhole).toBe(true);

  const whole = incoming(budget);
  await whole.pass(1, 100_000);
  whole.payload.end();
  expect(await whole.end).toBe(100_000);
  whole.leave();
  expect(budget.isWhole).toBe(false);
  whole.body.giveBack();
  expect(budget.isWhole).toBe(true);
});

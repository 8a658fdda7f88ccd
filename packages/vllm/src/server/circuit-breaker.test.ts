import { expect, test } from 'vitest';
import { CircuitBreaker } from './circuit-breaker.ts';

function breakerAt(): { breaker: CircuitBreaker; clock: { ms: number } } {
  const clock = { ms: 0 };
  return { clock, breaker: new CircuitBreaker({ probeAfterMs: () => 100, maxProbeAfterMs: 300, now: () => clock.ms }) };
}

test('three failures in a row open it, and a success between them resets the count', () => {
  const { breaker } = breakerAt();
  breaker.fail();
  breaker.fail();
  breaker.succeed();
  breaker.fail();
  breaker.fail();
  expect(breaker.isOpen).toBe(false);
  breaker.fail();
  expect(breaker.isOpen).toBe(true);
  breaker.succeed();
  expect(breaker.isOpen).toBe(false);
});

test('probes wait longer after each that fails, up to a limit', () => {
  const { breaker, clock } = breakerAt();
  expect(breaker.isProbeDue).toBe(false);
  for (let count = 0; count < 3; count++) breaker.fail();
  const waits: number[] = [];
  for (let probe = 0; probe < 4; probe++) {
    const start = clock.ms;
    while (!breaker.isProbeDue) clock.ms += 10;
    waits.push(clock.ms - start);
    breaker.failProbe();
  }
  expect(waits).toEqual([100, 200, 300, 300]);
});

test('after a successful probe one failure opens it again, and one success closes it', () => {
  const { breaker, clock } = breakerAt();
  for (let count = 0; count < 3; count++) breaker.fail();
  breaker.passProbe();
  expect(breaker.isOpen).toBe(false);
  breaker.fail();
  expect(breaker.isOpen).toBe(true);
  clock.ms += 100;
  breaker.passProbe();
  breaker.succeed();
  breaker.fail();
  expect(breaker.isOpen).toBe(false);
});

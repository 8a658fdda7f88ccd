import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { expect, test } from 'vitest';

import { returnMemoryOf } from './free-memory.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/**
 * Pieces that the C library does not map separately, and one after them, which is kept so that they are not at
 * the end of its memory.
 */
function pieces(): { held: { list: Uint8Array[] }; last: Uint8Array } {
  const list = Array.from({ length: 1_000 }, () => new Uint8Array(100_000).fill(1));
  return { held: { list }, last: new Uint8Array(100_000).fill(1) };
}

test.runIf(process.platform === 'linux')('memory of collected objects returns to the machine', async () => {
  const made = pieces();
  returnMemoryOf(made.held);
  const before = process.memoryUsage.rss();
  const { last } = made;
  Reflect.deleteProperty(made, 'held');
  const given = () => (before - process.memoryUsage.rss()) / 1e6;
  collect();
  await delay(500);
  const atOnce = given();
  await expect.poll(given).toBeGreaterThan(80);
  console.log(`of 100 MB ${atOnce.toFixed(0)} were given back by themselves, ${given().toFixed(0)} then`);
  expect(atOnce).toBeLessThan(80);
  expect(last[0]).toBe(1);
});

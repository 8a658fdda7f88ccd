import { describe, expect, test } from 'vitest';
import { DrawKey, RandomStream } from './random.ts';

const MASK_64 = (1n << 64n) - 1n;
const MASK_32 = (1n << 32n) - 1n;

/** The published algorithms, written only with big integers. */
function* referenceStream(seed: bigint): Generator<bigint> {
  const words: bigint[] = [];
  let state = seed & MASK_64;
  for (let i = 0; i < 2; i++) {
    state = (state + 0x9e3779b97f4a7c15n) & MASK_64;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK_64;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & MASK_64;
    z ^= z >> 31n;
    words.push(z & MASK_32, z >> 32n);
  }
  const rotate = (x: bigint, k: bigint): bigint => ((x << k) | (x >> (32n - k))) & MASK_32;
  let [s0, s1, s2, s3] = words as [bigint, bigint, bigint, bigint];
  for (;;) {
    yield (rotate((s1 * 5n) & MASK_32, 7n) * 9n) & MASK_32;
    const t = (s1 << 9n) & MASK_32;
    s2 ^= s0;
    s3 ^= s1;
    s1 ^= s2;
    s0 ^= s3;
    s2 ^= t;
    s3 = rotate(s3, 11n);
  }
}

describe('RandomStream', () => {
  test.each([0n, 1n, 42n, -7n, (1n << 63n) - 1n])('seed %s gives the published sequence', (seed) => {
    const stream = new RandomStream(seed);
    const reference = referenceStream(seed);
    for (let i = 0; i < 200; i++) expect(BigInt(stream.uint32())).toBe(reference.next().value);
  });

  test('splitmix64 of seed 0 starts with the value its author published', () => {
    // 0xe220a8397b1dcdaf is the first output of splitmix64 from state 0; its halves are the first two state words.
    const stream = referenceStream(0n);
    expect(stream.next().value).toBe((rotl32(0xe220a839n * 5n, 7n) * 9n) & MASK_32);
    function rotl32(x: bigint, k: bigint): bigint {
      const y = x & MASK_32;
      return ((y << k) | (y >> (32n - k))) & MASK_32;
    }
  });

  test('choice i of a seed is the stream of seed + i; without a seed no two agree', () => {
    expect(RandomStream.forChoice(5n, 3).uint32()).toBe(new RandomStream(8n).uint32());
    expect(RandomStream.forChoice(null, 0).uniform()).not.toBe(RandomStream.forChoice(null, 0).uniform());
  });

  test('uniform numbers are in [0, 1) and evenly spread', () => {
    const stream = new RandomStream(9n);
    const bins = Array.from({ length: 16 }, () => 0);
    for (let i = 0; i < 64_000; i++) {
      const u = stream.uniform();
      expect(u >= 0 && u < 1).toBe(true);
      bins[Math.floor(u * 16)]!++;
    }
    const chiSquare = bins.reduce((sum, count) => sum + (count - 4000) ** 2 / 4000, 0);
    console.log(`uniform: chi-square ${chiSquare.toFixed(1)} at 15 degrees of freedom (0.1 % quantile 37.7)`);
    expect(chiSquare).toBeLessThan(37.7);
  });
});

describe('DrawKey', () => {
  test('arrivals are exponential, for any index and any key', () => {
    const stream = new RandomStream(12n);
    const shapes: [string, (i: number) => number][] = [
      [
        'one key, many indices',
        (
          (key) => (i: number) =>
            key.arrival(i, 1)
        )(stream.drawKey()),
      ],
      ['many keys, one index', () => stream.drawKey().arrival(7, 1)],
      ['near keys', (i) => new DrawKey(i, 0).arrival(7, 1)],
      ['near keys, other word', (i) => new DrawKey(0, i).arrival(7, 1)],
    ];
    for (const [name, arrival] of shapes) {
      const bins = Array.from({ length: 64 }, () => 0);
      for (let i = 0; i < 64_000; i++) bins[Math.floor(Math.exp(-arrival(i)) * 64)]!++;
      const chiSquare = bins.reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0);
      console.log(
        `arrivals, ${name}: chi-square ${chiSquare.toFixed(1)} at 63 degrees of freedom (0.1 % quantile 103.4)`,
      );
      expect(chiSquare).toBeLessThan(103.4);
    }
  });

  test('neighbouring indices and draws know nothing of each other', () => {
    const stream = new RandomStream(13n);
    const share = (of: () => [number, number]): number => {
      const bins = Array.from({ length: 64 }, () => 0);
      for (let i = 0; i < 64_000; i++) {
        const [a, b] = of().map((arrival) => Math.floor(Math.exp(-arrival) * 8)) as [number, number];
        bins[8 * a + b]!++;
      }
      return bins.reduce((sum, count) => sum + (count - 1000) ** 2 / 1000, 0);
    };
    const indices = share(() => {
      const key = stream.drawKey();
      return [key.arrival(5, 1), key.arrival(6, 1)];
    });
    const draws = share(() => [stream.drawKey().arrival(5, 1), stream.drawKey().arrival(5, 1)]);
    console.log(`pairs: chi-square ${indices.toFixed(1)} and ${draws.toFixed(1)} at 63 degrees of freedom`);
    expect(Math.max(indices, draws)).toBeLessThan(103.4);
  });

  test('a limit leaves out only later arrivals', () => {
    const stream = new RandomStream(14n);
    for (let i = 0; i < 2000; i++) {
      const [key, rate, limit] = [stream.drawKey(), 3 * stream.uniform() + 0.01, 2 * stream.uniform()];
      const arrival = key.arrival(i, rate);
      const limited = key.arrival(i, rate, limit);
      if (arrival < limit) expect(limited).toBe(arrival);
      else expect(limited).toBeGreaterThanOrEqual(limit);
    }
  });

  test('a rate scales the arrival', () => {
    const key = new DrawKey(3, 4);
    expect(key.arrival(2, 4)).toBeCloseTo(key.arrival(2, 1) / 4, 12);
  });
});

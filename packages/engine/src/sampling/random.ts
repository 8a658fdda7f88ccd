import { randomBytes } from 'node:crypto';

/**
 * Random stream of one choice: xoshiro128** seeded through splitmix64, so that near seeds give unrelated
 * streams. Neither the batch nor preemption changes it.
 *
 * @see Blackman & Vigna, "Scrambled linear pseudorandom number generators", arXiv 1805.01407
 */
export class RandomStream {
  #s0: number;
  #s1: number;
  #s2: number;
  #s3: number;

  /** @param seed any integer; taken modulo 2^64 */
  constructor(seed: bigint) {
    const state = BigInt.asUintN(64, seed);
    const first = splitmix64(state + GOLDEN_GAMMA);
    const second = splitmix64(state + 2n * GOLDEN_GAMMA);
    this.#s0 = Number(first & 0xffffffffn) | 0;
    this.#s1 = Number(first >> 32n) | 0;
    this.#s2 = Number(second & 0xffffffffn) | 0;
    this.#s3 = Number(second >> 32n) | 0;
  }

  /** Seed `seed + index`, or a system-random seed for null. */
  static forChoice(seed: bigint | null, index: number): RandomStream {
    return new RandomStream(seed === null ? randomBytes(8).readBigUInt64LE() : seed + BigInt(index));
  }

  uint32(): number {
    const scrambled = Math.imul(rotateLeft(Math.imul(this.#s1, 5), 7), 9) >>> 0;
    const t = this.#s1 << 9;
    this.#s2 ^= this.#s0;
    this.#s3 ^= this.#s1;
    this.#s1 ^= this.#s2;
    this.#s0 ^= this.#s3;
    this.#s2 ^= t;
    this.#s3 = rotateLeft(this.#s3, 11);
    return scrambled;
  }

  drawKey(): DrawKey {
    return new DrawKey(this.uint32(), this.uint32());
  }

  /** Uniform in [0, 1), a multiple of 2^-53. */
  uniform(): number {
    const high = this.uint32() >>> 5; // 27 bits
    const low = this.uint32() >>> 6; // 26 bits
    return (high * 67_108_864 + low) / 9_007_199_254_740_992;
  }
}

/**
 * Random numbers of one draw, independent per index: a hash (murmur3's mixing steps), keyed by 64 bits of the
 * choice's stream.
 */
export class DrawKey {
  readonly #low: number;
  readonly #high: number;

  constructor(low: number, high: number) {
    this.#low = low;
    this.#high = high;
  }

  /**
   * Arrival time of an index in a race, exponentially distributed with mean 1 / rate.
   *
   * @param before later arrivals do not matter and may be returned as Infinity
   */
  arrival(index: number, rate: number, before = Infinity): number {
    let x = Math.imul(index + 1, 0x9e3779b1) ^ this.#low;
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b) ^ this.#high;
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    x = Math.imul(x ^ (x >>> 16), 0x2c1b3c6d) ^ this.#low;
    x = (x ^ (x >>> 15)) >>> 0;
    const uniform = (x + 0.5) / 4_294_967_296;
    // -ln u >= 1 - u: skips the logarithm for most late arrivals.
    return 1 - uniform >= before * rate ? Infinity : -Math.log(uniform) / rate;
  }
}

const GOLDEN_GAMMA = 0x9e3779b97f4a7c15n;

function splitmix64(input: bigint): bigint {
  let z = BigInt.asUintN(64, input);
  z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}

function rotateLeft(value: number, bits: number): number {
  return (value << bits) | (value >>> (32 - bits));
}

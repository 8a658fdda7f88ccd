import { type KeyAnswer, type KeyLimits, type KeySpending, NO_LIMITS, SqlStore, StoreError } from '@trainyard/store';
import { MemoryDatabase, MemorySql } from '@trainyard/store/testing';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { RequestError } from '../../seams/faults/request-error.ts';
import type { Admission } from './admission.ts';
import { KeyLimiter } from './key-limiter.ts';
import { durationOf } from './limit-words.ts';

const LIMITS: KeyLimits = { requestsPerMinute: 60, tokensPerMinute: 600, maxRequestsInFlight: 4 };
const REQUESTS: KeyLimits = { ...NO_LIMITS, requestsPerMinute: 60 };
const TOKENS: KeyLimits = { ...NO_LIMITS, tokensPerMinute: 600 };
const IN_FLIGHT: KeyLimits = { ...NO_LIMITS, maxRequestsInFlight: 4 };

let database: MemoryDatabase;
let keyId: string;
let closing: (() => Promise<void>)[];
let stores: SqlStore[];
beforeEach(async () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 1) });
  database = new MemoryDatabase();
  closing = [];
  stores = [];
  const store = openStore('admin');
  const { id: entityId } = await store.keys.ensureEntity('acme');
  ({ id: keyId } = await store.keys.create({ entityId, name: 'ci', scopes: ['inference'] }));
});
afterEach(async () => {
  for (const close of closing.toReversed()) await close();
  vi.useRealTimers();
});

function openStore(instanceId: string): SqlStore {
  const store = new SqlStore(new MemorySql(database), { clock: () => Date.now(), instanceId });
  closing.push(() => store.close());
  stores.push(store);
  return store;
}

/** A process that counts its reports to the store, and can be without it. */
class Process {
  readonly limiter: KeyLimiter;
  readonly told: KeySpending[] = [];
  readonly refused: (keyof KeyLimits)[] = [];
  readonly logged: string[] = [];
  numWrites = 0;
  fault: StoreError | null = null;
  /** Awaited by each write before it starts. */
  gate: Promise<void> = Promise.resolve();

  constructor(name: string) {
    const store = openStore(name);
    const spend = async (spendings: readonly KeySpending[]): Promise<KeyAnswer[]> => {
      await this.gate;
      if (this.fault !== null) throw this.fault;
      this.numWrites += 1;
      this.told.push(...spendings);
      return await store.keys.spend(spendings);
    };
    this.limiter = new KeyLimiter({
      store: { keys: { spend }, clock: { now: () => Date.now() } },
      onRefusal: (limit) => this.refused.push(limit),
      log: (line) => this.logged.push(line),
    });
    closing.push(this.#close);
  }

  readonly #close = () => this.limiter.close();

  /** Stops all its reports. */
  kill(): void {
    this.gate = new Promise(() => undefined);
    closing = closing.filter((close) => close !== this.#close);
  }

  sample(limits = LIMITS): Promise<Admission> {
    return this.limiter.admit(keyId, limits, 'sample');
  }

  end(admission: Admission): void {
    this.limiter.end(keyId, admission);
  }

  async refusal(limits = LIMITS): Promise<RequestError> {
    const error: unknown = await this.sample(limits).catch((reason: unknown) => reason);
    if (error instanceof RequestError) return error;
    throw new Error('it was let through');
  }

  async count(wanted: number, limits: KeyLimits): Promise<number> {
    const tried = await Promise.allSettled(Array.from({ length: wanted }, () => this.sample(limits)));
    return tried.filter(({ status }) => status === 'fulfilled').length;
  }
}

test('requests of two processes share one bucket, and concurrent ones share one write', async () => {
  const [one, two] = [new Process('one'), new Process('two')];
  expect((await Promise.all([one.count(50, REQUESTS), two.count(50, REQUESTS)])).reduce((a, b) => a + b)).toBe(60);
  // The first of each is written by itself, and the others together.
  expect([one.numWrites, two.numWrites]).toEqual([2, 2]);
  await vi.advanceTimersByTimeAsync(2_000);
  expect((await one.count(5, REQUESTS)) + (await two.count(5, REQUESTS))).toBe(2);
});

test('a refusal has the limit, its value and the wait; a certain refusal writes nothing', async () => {
  const one = new Process('one');
  expect(await one.count(60, REQUESTS)).toBe(60);
  const refused = await one.refusal(REQUESTS);
  expect([refused.code, refused.message]).toEqual([
    'rate_limit_exceeded',
    'Rate limit reached: this key may send 60 requests per minute (requests_per_minute); retry in 1s',
  ]);
  expect(refused.headers).toEqual({
    'retry-after': '1',
    'retry-after-ms': '1000',
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '0',
    'x-ratelimit-reset-requests': '1m0s',
  });
  const { numWrites } = one;
  for (let round = 0; round < 20; round++) await one.refusal(REQUESTS);
  expect(one.numWrites).toBe(numWrites);
  expect(one.refused).toEqual(Array.from({ length: 21 }, () => 'requestsPerMinute'));
  await vi.advanceTimersByTimeAsync(1_000);
  const { headers } = await one.sample(REQUESTS);
  expect(headers).toMatchObject({ 'x-ratelimit-remaining-requests': '0' });
});

test('a wait of less than a second is given in milliseconds, and rounded up in seconds', async () => {
  const one = new Process('one');
  const limits = { ...NO_LIMITS, requestsPerMinute: 240 };
  await one.count(240, limits);
  await vi.advanceTimersByTimeAsync(30);
  expect((await one.refusal(limits)).headers).toMatchObject({ 'retry-after': '1', 'retry-after-ms': '220' });
});

test('tokens are written once a second while they come, and at the end; other requests wait for the debt', async () => {
  const [one, two] = [new Process('one'), new Process('two')];
  const admission = await one.sample(TOKENS);
  const meter = { promptTokens: 100, completionTokens: 0 };
  admission.watch([meter]);
  meter.completionTokens = 300;
  await vi.advanceTimersByTimeAsync(1_000);
  // 400 are reported at the end of the second.
  const seen = await two.sample(TOKENS);
  expect(seen.headers).toMatchObject({ 'x-ratelimit-remaining-tokens': '200', 'x-ratelimit-reset-tokens': '40s' });
  two.end(seen);
  meter.completionTokens = 600;
  admission.settle();
  one.end(admission);
  await vi.advanceTimersByTimeAsync(100);
  const refused = await two.refusal(TOKENS);
  // 700, less one refilled in a tenth of a second; one of 600 is needed.
  expect(refused.headers).toMatchObject({ 'retry-after': '10', 'retry-after-ms': '10000' });
  expect(refused.message).toBe(
    'Rate limit reached: this key may use 600 tokens per minute (tokens_per_minute), prompts and completions, and has used 699; retry in 10s',
  );
  await vi.advanceTimersByTimeAsync(9_999);
  await two.refusal(TOKENS);
  await vi.advanceTimersByTimeAsync(1);
  await two.sample(TOKENS);
  const numReported = one.told.reduce((sum, { numTokens }) => sum + numTokens, 0);
  expect(numReported).toBe(700);
});

test('tokens that come after the end of the request, as of a client that left, count too', async () => {
  const one = new Process('one');
  const admission = await one.sample(TOKENS);
  const meter = { promptTokens: 10, completionTokens: 0 };
  admission.watch([meter]);
  one.end(admission);
  meter.completionTokens = 25;
  admission.settle();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(one.told.reduce((sum, { numTokens }) => sum + numTokens, 0)).toBe(35);
});

test('places are those of all processes; one that is free is known elsewhere within a tenth of a second', async () => {
  const [one, two] = [new Process('one'), new Process('two')];
  const held = await Promise.all([one.sample(IN_FLIGHT), one.sample(IN_FLIGHT), one.sample(IN_FLIGHT)]);
  const last = await two.sample(IN_FLIGHT);
  const refused = await two.refusal(IN_FLIGHT);
  expect([refused.message, refused.headers]).toEqual([
    'Rate limit reached: this key may have 4 requests in flight (max_requests_in_flight) and all are in use; retry when one of them has ended',
    { 'retry-after': '1', 'retry-after-ms': '1000' },
  ]);
  one.end(held[0]!);
  await vi.advanceTimersByTimeAsync(100);
  await two.sample(IN_FLIGHT);
  await two.refusal(IN_FLIGHT);
  two.end(last);
  two.end(last);
  // In its own process at once, and only once.
  await two.sample(IN_FLIGHT);
  await two.refusal(IN_FLIGHT);
});

test('places last as long as their requests, and 15 s longer than a process that was killed', async () => {
  const [one, two] = [new Process('one'), new Process('two')];
  await Promise.all([one.sample(IN_FLIGHT), one.sample(IN_FLIGHT), one.sample(IN_FLIGHT), one.sample(IN_FLIGHT)]);
  for (let minute = 0; minute < 5; minute++) {
    await vi.advanceTimersByTimeAsync(60_000);
    await two.refusal(IN_FLIGHT);
  }
  one.kill();
  await vi.advanceTimersByTimeAsync(9_000);
  await two.refusal(IN_FLIGHT);
  await vi.advanceTimersByTimeAsync(6_000);
  expect(await two.count(5, IN_FLIGHT)).toBe(4);
});

test('requests during a write join the next write, and no place is given twice', async () => {
  const one = new Process('one');
  const gate = Promise.withResolvers<void>();
  one.gate = gate.promise;
  const wanted = Array.from({ length: 7 }, () =>
    one.sample(IN_FLIGHT).then(
      () => true,
      () => false,
    ),
  );
  gate.resolve();
  expect((await Promise.all(wanted)).filter(Boolean)).toHaveLength(4);
  expect(one.numWrites).toBe(2);
});

test('while the store is read-only each process uses its last values, and writes the counts later', async () => {
  const [one, two] = [new Process('one'), new Process('two')];
  await two.count(30, REQUESTS);
  await one.count(10, REQUESTS);
  one.fault = new StoreError('store.disk_full', 'the disk is full');
  // 40 of 60 were known here.
  expect(await one.count(30, REQUESTS)).toBe(20);
  expect((await one.refusal(REQUESTS)).headers).toMatchObject({ 'retry-after-ms': '1000' });
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await one.count(5, REQUESTS)).toBe(2);
  expect(await two.count(30, REQUESTS)).toBe(22);
  one.fault = null;
  await vi.advanceTimersByTimeAsync(1_000);
  // 22 were admitted without the store, and are now a debt, less one refilled in a second.
  expect((await two.refusal(REQUESTS)).headers).toMatchObject({ 'retry-after-ms': '22000' });
  await vi.advanceTimersByTimeAsync(61_000);
  expect((await one.count(60, REQUESTS)) + (await two.count(60, REQUESTS))).toBe(40);
  expect(one.logged).toEqual([
    'key limits apply only to this process for now: the disk is full',
    'key limits are shared with other processes again',
  ]);
});

test('tokens that could not be written are written once when the store is back, and count locally meanwhile', async () => {
  const [one, two] = [new Process('one'), new Process('two')];
  const admission = await one.sample(TOKENS);
  admission.watch([{ promptTokens: 900, completionTokens: 0 }]);
  one.fault = new StoreError('store.busy', 'another keeps it');
  admission.settle();
  one.end(admission);
  await vi.advanceTimersByTimeAsync(3_000);
  await one.refusal(TOKENS);
  await two.sample(TOKENS);
  one.fault = null;
  await vi.advanceTimersByTimeAsync(1_000);
  expect((await two.refusal(TOKENS)).message).toContain('and has used 900;');
  expect(one.told.reduce((sum, { numTokens }) => sum + numTokens, 0)).toBe(900);
});

test('places of others do not count for longer than their leases while the store is away', async () => {
  const [one, two] = [new Process('one'), new Process('two')];
  await Promise.all([one.sample(IN_FLIGHT), one.sample(IN_FLIGHT), one.sample(IN_FLIGHT)]);
  await two.sample(IN_FLIGHT);
  two.fault = new StoreError('store.unavailable', 'gone');
  await two.refusal(IN_FLIGHT);
  await vi.advanceTimersByTimeAsync(15_000);
  expect(await two.count(5, IN_FLIGHT)).toBe(3);
});

test('a fault of the code is thrown to the caller', async () => {
  const one = new Process('one');
  one.fault = new StoreError('store.closed', 'closed');
  await expect(one.sample()).rejects.toMatchObject({ code: 'store.closed' });
});

test('a raised limit applies at once, also to requests refused before', async () => {
  const one = new Process('one');
  await one.count(60, REQUESTS);
  await one.refusal(REQUESTS);
  expect(await one.count(2, { ...REQUESTS, requestsPerMinute: 61 })).toBe(1);
});

test('a close frees the places for others and writes the tokens', async () => {
  const [one, two] = [new Process('one'), new Process('two')];
  const held = await Promise.all([one.sample(), one.sample(), one.sample(), one.sample()]);
  held[0]!.watch([{ promptTokens: 600, completionTokens: 0 }]);
  for (const admission of held) one.end(admission);
  await one.limiter.close();
  expect((await two.refusal()).message).toContain('tokens_per_minute');
  expect(await two.count(5, IN_FLIGHT)).toBe(4);
});

/** Possible events for three processes of one service. */
const happening = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('ask' as const), at: fc.nat(2), count: fc.integer({ min: 1, max: 9 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('end' as const), at: fc.nat(2), count: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 20_000 }) }) },
);

test('across three processes, no more starts than the bucket had, and no more is in flight than allowed', async () => {
  const limits: KeyLimits = { requestsPerMinute: 30, tokensPerMinute: null, maxRequestsInFlight: 6 };
  let numRuns = 0;
  let numGranted = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 40 }), async (happenings) => {
      numRuns += 1;
      const { id: entityId } = await stores[0]!.keys.ensureEntity('acme');
      ({ id: keyId } = await stores[0]!.keys.create({ entityId, name: 'ci', scopes: ['inference'] }));
      const processes = [0, 1, 2].map((index) => new Process(`${numRuns}-${index}`));
      const held: { admission: Admission; at: number }[] = [];
      const begunAt = Date.now();
      let numBegun = 0;
      for (const what of happenings) {
        if (what.kind === 'pass') await vi.advanceTimersByTimeAsync(what.ms);
        else if (what.kind === 'end')
          for (const { admission, at } of held.splice(0, what.count)) processes[at]!.end(admission);
        else {
          // All at once, in this process and the next.
          const asked = Array.from({ length: what.count }, (_, index) => (what.at + (index % 2)) % 3);
          const outcomes = await Promise.allSettled(asked.map((at) => processes[at]!.sample(limits)));
          for (const [index, outcome] of outcomes.entries())
            if (outcome.status === 'fulfilled') held.push({ admission: outcome.value, at: asked[index]! });
          numBegun += outcomes.filter(({ status }) => status === 'fulfilled').length;
        }
        expect(held.length).toBeLessThanOrEqual(6);
        expect(numBegun).toBeLessThanOrEqual(30 + ((Date.now() - begunAt) / 60_000) * 30);
      }
      for (const { admission, at } of held) processes[at]!.end(admission);
      // Nothing is lost: after a minute the whole budget is back.
      await vi.advanceTimersByTimeAsync(60_100);
      expect(await processes[numRuns % 3]!.count(9, limits)).toBe(6);
      numGranted += numBegun;
    }),
    { numRuns: 60 },
  );
  // The run has not only tested refusals.
  expect(numGranted).toBeGreaterThan(60);
});

test.each([
  [0, '0s'],
  [0.2, '1ms'],
  [17, '17ms'],
  [8_640, '8.64s'],
  [60_000, '1m0s'],
  [86_400, '1m26.4s'],
])('%d ms is %s', (ms, text) => {
  expect(durationOf(ms)).toBe(text);
});

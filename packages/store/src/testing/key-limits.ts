import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type KeyLimits, type KeySpending, type KeyVerdict, NO_LIMITS } from '../parts/keys/key-limits.ts';
import type { Store } from '../parts/store.ts';
import { ALL_SCOPES, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const SECOND_MS = 1_000;
const LIMITS: KeyLimits = { requestsPerMinute: 60, tokensPerMinute: 600, maxRequestsInFlight: 3 };

export function keyLimitSuite(makeHarness: MakeHarness): void {
  describe('limits of keys', () => {
    let harness: StoreHarness;
    let clock: ManualClock;
    let one: Store;
    let two: Store;
    let keyId: string;
    let secret: string;
    beforeEach(async () => {
      harness = await makeHarness();
      clock = new ManualClock();
      one = await harness.open({ clock: clock.read, instanceId: 'one' });
      two = await harness.open({ clock: clock.read, instanceId: 'two' });
      const { id: entityId } = await one.keys.ensureEntity('acme');
      ({ id: keyId, secret } = await one.keys.create({ entityId, name: 'ci', scopes: ALL_SCOPES }));
    });
    afterEach(() => harness.destroy());

    const spend = async (store: Store, spending: Partial<KeySpending>) => {
      const none = { keyId, limits: LIMITS, wanted: [], numBegun: 0, numTokens: 0, numInFlight: 0 };
      const [answer] = await store.keys.spend([{ ...none, ...spending }]);
      return answer!;
    };
    const begin = async (store: Store, count: number, spending: Partial<KeySpending> = {}) =>
      (await spend(store, { wanted: Array.from({ length: count }, () => 'submit' as const), ...spending })).verdicts;
    const granted = (verdicts: readonly KeyVerdict[]) => verdicts.filter(({ kind }) => kind === 'granted').length;

    it('a key has none by default, and each can be changed separately', async () => {
      expect(await one.keys.verify(secret)).toMatchObject({ limits: null });
      expect(await one.keys.get(keyId)).toMatchObject({ limits: NO_LIMITS });
      await one.keys.setLimits(keyId, { requestsPerMinute: 5 });
      expect(await two.keys.setLimits(keyId, { tokensPerMinute: 7 })).toMatchObject({
        limits: { requestsPerMinute: 5, tokensPerMinute: 7, maxRequestsInFlight: null },
      });
      expect((await one.keys.verify(secret))?.limits).toEqual({
        ...NO_LIMITS,
        requestsPerMinute: 5,
        tokensPerMinute: 7,
      });
      await one.keys.setLimits(keyId, { requestsPerMinute: null, tokensPerMinute: null });
      expect((await one.keys.verify(secret))?.limits).toBeNull();
      expect(await one.keys.setLimits('nobody', {})).toBeNull();
      const { entityId } = (await one.keys.get(keyId))!;
      const made = await one.keys.create({ entityId, name: 'limited', scopes: ALL_SCOPES, limits: LIMITS });
      expect((await two.keys.list()).map(({ limits }) => limits)).toEqual([NO_LIMITS, LIMITS]);
      expect((await two.keys.verify(made.secret))?.limits).toEqual(LIMITS);
    });

    it('a bucket of requests is one for all processes, and fills evenly', async () => {
      expect(granted(await begin(one, 40))).toBe(40);
      const verdicts = await begin(two, 30);
      expect(granted(verdicts)).toBe(20);
      expect(verdicts.at(-1)).toMatchObject({
        kind: 'refused',
        limit: 'requestsPerMinute',
        freeInMs: expect.closeTo(SECOND_MS, 3) as number,
      });
      clock.advance(SECOND_MS - 1);
      expect(granted(await begin(one, 1))).toBe(0);
      clock.advance(1);
      expect(granted(await begin(one, 2))).toBe(1);
      clock.advance(10 * SECOND_MS);
      expect([granted(await begin(two, 7)), granted(await begin(one, 7))]).toEqual([7, 3]);
      clock.advance(3600 * SECOND_MS);
      expect(granted(await begin(two, 70))).toBe(60);
    });

    it('both at the same time never have more than there is', async () => {
      const rounds = await Promise.all(Array.from({ length: 30 }, (_, index) => begin(index % 2 === 0 ? one : two, 3)));
      expect(granted(rounds.flat())).toBe(60);
    });

    it('tokens may become a debt, which is paid before the next request that samples', async () => {
      const sample = async (store: Store) => (await spend(store, { wanted: ['sample'] })).verdicts[0]!;
      await spend(one, { numTokens: 599 });
      expect((await sample(two)).kind).toBe('granted');
      await spend(two, { numTokens: 101 });
      const refused = await sample(one);
      // 700 of 600 are used, and 10 are added per second.
      expect(refused).toMatchObject({ kind: 'refused', limit: 'tokensPerMinute' });
      expect(refused.kind === 'refused' && refused.freeInMs).toBeCloseTo(10_100, 3);
      expect(refused.budget.usedTokens).toBeCloseTo(700, 6);
      expect(granted(await begin(one, 1))).toBe(1);
      clock.advance(10_099);
      expect((await sample(one)).kind).toBe('refused');
      clock.advance(1);
      expect((await sample(one)).kind).toBe('granted');
    });

    it('requests in flight are those of all processes, and of one that was silent for less than 15 s', async () => {
      const begun = async (store: Store, numInFlight: number) =>
        (await spend(store, { wanted: ['sample', 'sample', 'submit'], numInFlight })).verdicts.map(({ kind }) => kind);
      expect(await begun(one, 0)).toEqual(['granted', 'granted', 'granted']);
      expect(await begun(two, 0)).toEqual(['granted', 'refused', 'granted']);
      const [refused] = (await spend(two, { wanted: ['sample'], numInFlight: 1 })).verdicts;
      expect(refused).toMatchObject({ limit: 'maxRequestsInFlight', freeInMs: null, budget: { numByOthers: 2 } });
      clock.advance(15 * SECOND_MS - 1);
      await spend(two, { numInFlight: 1 });
      expect(await begun(two, 1)).toEqual(['refused', 'refused', 'granted']);
      clock.advance(1);
      expect(await begun(two, 1)).toEqual(['granted', 'granted', 'granted']);
      // The other is back, with the number it reports.
      expect((await spend(one, { numInFlight: 1 })).budget.numByOthers).toBe(3);
      expect((await spend(two, { numInFlight: 0 })).budget.numByOthers).toBe(1);
      expect((await spend(one, { numInFlight: 1 })).budget.numByOthers).toBe(0);
    });

    it('places of a process are free when it starts again, and of the others when they end', async () => {
      await spend(one, { numInFlight: 2 });
      await spend(two, { numInFlight: 1 });
      await one.recoverAfterRestart();
      expect((await spend(two, { numInFlight: 1 })).budget.numByOthers).toBe(0);
      expect((await spend(one, {})).budget.numByOthers).toBe(1);
    });

    it('requests started without admission count, and unlimited ones are not counted', async () => {
      expect(granted(await begin(one, 5, { numBegun: 58 }))).toBe(2);
      const limits = { ...NO_LIMITS, maxRequestsInFlight: 1 };
      const { budget } = await spend(one, { limits, numBegun: 10, numTokens: 1e6 });
      expect(budget).toMatchObject({ usedRequests: 0, usedTokens: 0 });
    });

    it('a clock that is set back makes no bucket fuller', async () => {
      expect(granted(await begin(one, 60))).toBe(60);
      clock.advance(-3600 * SECOND_MS);
      expect(granted(await begin(one, 1))).toBe(0);
      clock.advance(SECOND_MS);
      expect(granted(await begin(one, 2))).toBe(1);
      // Small steps back and forth.
      for (let round = 0; round < 5; round++) {
        clock.advance(SECOND_MS / 2);
        expect(granted(await begin(one, 1))).toBe(0);
        clock.advance(-SECOND_MS / 2);
        expect(granted(await begin(two, 1))).toBe(0);
      }
    });

    it('a changed limit includes earlier usage', async () => {
      await begin(one, 30);
      const more = { ...LIMITS, requestsPerMinute: 100 };
      expect(granted(await begin(two, 100, { limits: more }))).toBe(70);
      const less = { ...LIMITS, requestsPerMinute: 10 };
      const [refused] = await begin(one, 1, { limits: less });
      expect(refused?.kind === 'refused' && refused.freeInMs).toBeCloseTo((91 / 10) * 60 * SECOND_MS, 3);
    });

    it('nothing stays of a key that was not used for a day', async () => {
      await spend(one, { numInFlight: 1, numTokens: 5 });
      clock.advance(24 * 3600 * SECOND_MS + 1);
      await one.purgeExpired();
      expect((await spend(two, {})).budget).toMatchObject({ usedTokens: 0, numByOthers: 0 });
    });
  });
}

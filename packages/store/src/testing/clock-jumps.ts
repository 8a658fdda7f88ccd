import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import { addJob, addModel, ALL_SCOPES, claim, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const HOUR_MS = 3600 * 1000;
const DAY_MS = 24 * HOUR_MS;

export function clockJumpSuite(makeHarness: MakeHarness): void {
  describe('clock jumps', () => {
    let harness: StoreHarness;
    let clock: ManualClock;
    let store: Store;
    beforeEach(async () => {
      harness = await makeHarness();
      clock = new ManualClock();
      store = await harness.open({ clock: clock.read });
    });
    afterEach(() => harness.destroy());

    it('the trusted reading is first the time of the newest row, then the recorded one, for every process', async () => {
      expect(await store.clock.lastTrusted()).toBeNull();
      await addModel(store);
      clock.advance(HOUR_MS);
      await addJob(store, (await addModel(store, 'second')).id);
      const newest = clock.read();
      clock.advance(-40 * DAY_MS);
      expect(await store.clock.lastTrusted()).toBe(newest);
      await store.clock.trust(newest + 7);
      expect(await (await harness.open({ clock: clock.read })).clock.lastTrusted()).toBe(newest + 7);
    });

    it('a key, a session or a link that has ended stays ended when the clock is set back, also after a start', async () => {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const expiresAt = clock.read() + DAY_MS;
      const key = await store.keys.create({ entityId, name: 'guest', scopes: ALL_SCOPES, expiresAt });
      const lasting = await store.keys.create({ entityId, name: 'own', scopes: ALL_SCOPES });
      const session = await store.signIns.openSession(lasting.id);
      const link = await store.signIns.createLink(lasting.id);
      clock.advance(31 * DAY_MS);
      await store.clock.trust(clock.read());
      clock.advance(-31 * DAY_MS);
      const next = await harness.open({ clock: clock.read });
      await next.recoverAfterRestart();
      for (const each of [store, next]) {
        expect(await each.keys.verify(key.secret)).toBeNull();
        expect(await each.signIns.findSession(session.secret)).toBeNull();
        expect(await each.signIns.redeemLink(link.secret)).toBeNull();
        expect(await each.keys.verify(lasting.secret)).not.toBeNull();
        // New ones have their normal lifetime.
        expect(await each.signIns.redeemLink((await each.signIns.createLink(lasting.id)).secret)).toBe(lasting.id);
      }
    });

    it('a clock that is ahead ends a key for as long as it is ahead, and deletes nothing', async () => {
      const { id: entityId } = await store.keys.ensureEntity('local');
      const expiresAt = clock.read() + DAY_MS;
      const key = await store.keys.create({ entityId, name: 'guest', scopes: ALL_SCOPES, expiresAt });
      await store.clock.trust(clock.read());
      clock.advance(40 * DAY_MS);
      expect(await store.keys.verify(key.secret)).toBeNull();
      clock.advance(-40 * DAY_MS);
      expect(await store.keys.verify(key.secret)).not.toBeNull();
    });

    it('removals by age go at most an hour beyond the trusted reading', async () => {
      await store.clock.trust(clock.read());
      const trusted = clock.read();
      clock.advance(HOUR_MS / 2);
      expect(store.clock.removalTime()).toBe(clock.read());
      clock.advance(40 * DAY_MS);
      expect(store.clock.removalTime()).toBe(trusted + HOUR_MS);
    });

    it('leases from a time when the clock was far ahead have ended', async () => {
      const ahead = await harness.open({ clock: clock.read, instanceId: 'gone' });
      const { id } = await addJob(store, (await addModel(store)).id);
      clock.advance(40 * DAY_MS);
      await claim(ahead, 'gone', 60_000);
      const facts = { baseModels: [], capacity: 1, adapterDigests: [], isDraining: false, machineTrouble: null };
      await ahead.members.register({ role: 'trainer', url: null, version: '0', ...facts }, 60_000);
      expect([await store.jobs.claim('next', 60_000), (await store.members.list()).length]).toEqual([null, 1]);
      clock.advance(-40 * DAY_MS);
      expect(await store.members.list()).toEqual([]);
      expect((await store.jobs.claim('next', 60_000))?.id).toBe(id);
    });
  });
}

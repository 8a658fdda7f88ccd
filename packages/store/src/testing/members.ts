import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { MemberFacts, NewMember } from '../parts/members/members.ts';
import type { Store } from '../parts/store.ts';
import { type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const LEASE_MS = 30_000;

const IDLE: MemberFacts = {
  baseModels: [{ id: 'base', fileDigest: null, vocabSize: 49_152 }],
  capacity: 1,
  adapterDigests: [],
  isDraining: false,
  machineTrouble: null,
};
const TRAINER: NewMember = { role: 'trainer', url: null, version: '1.2.3', ...IDLE };
const ENGINE: NewMember = { ...TRAINER, role: 'engine', url: 'http://10.0.0.7:8421', capacity: 2048 };

export function memberSuite(makeHarness: MakeHarness): void {
  describe('parts of a service', () => {
    let harness: StoreHarness;
    let clock: ManualClock;
    let one: Store;
    let two: Store;
    beforeEach(async () => {
      harness = await makeHarness();
      clock = new ManualClock();
      one = await harness.open({ clock: clock.read, instanceId: 'one' });
      two = await harness.open({ clock: clock.read, instanceId: 'two' });
    });
    afterEach(() => harness.destroy());
    const live = async (store: Store) => (await store.members.list()).map(({ id, role }) => `${role} ${id}`);

    it('a registered member is visible to all, each role of a process separately', async () => {
      const startedAt = clock.read();
      await two.members.register(TRAINER, LEASE_MS);
      await two.members.register(ENGINE, LEASE_MS);
      await one.members.register(ENGINE, LEASE_MS);
      const times = { startedAt, leaseExpiresAt: startedAt + LEASE_MS };
      expect(await one.members.list()).toEqual([
        { id: 'one', ...ENGINE, ...times },
        { id: 'two', ...ENGINE, ...times },
        { id: 'two', ...TRAINER, ...times },
      ]);
    });

    it('a renewed lease holds, with the new facts; another one ends', async () => {
      const startedAt = clock.read();
      await one.members.register(ENGINE, LEASE_MS);
      await two.members.register(TRAINER, LEASE_MS);
      clock.advance(LEASE_MS - 1);
      const machineTrouble = 'the disk of the data folder is full';
      const facts = { ...IDLE, capacity: 2048, adapterDigests: ['d1', 'd2'], isDraining: true, machineTrouble };
      expect(await one.members.renew('engine', facts, LEASE_MS)).toBe(true);
      expect(await live(two)).toEqual(['engine one', 'trainer two']);
      clock.advance(1);
      expect(await two.members.list()).toEqual([
        { id: 'one', ...ENGINE, ...facts, startedAt, leaseExpiresAt: clock.read() - 1 + LEASE_MS },
      ]);
    });

    it('a member whose release does not report its machine has no problem', async () => {
      const { machineTrouble: _unknown, ...older } = TRAINER;
      await one.members.register(older as NewMember, LEASE_MS);
      expect(await two.members.list()).toMatchObject([{ role: 'trainer', machineTrouble: null }]);
    });

    it('a lease that ended can be renewed until its row is removed; then the member registers again', async () => {
      await one.members.register(ENGINE, LEASE_MS);
      clock.advance(LEASE_MS);
      expect(await live(one)).toEqual([]);
      expect(await one.members.renew('engine', IDLE, LEASE_MS)).toBe(true);
      expect(await live(two)).toEqual(['engine one']);
      clock.advance(LEASE_MS);
      await two.purgeExpired();
      expect(await one.members.renew('engine', IDLE, LEASE_MS)).toBe(false);
      expect(await live(one)).toEqual([]);
      await one.members.register(ENGINE, LEASE_MS);
      expect(await live(two)).toEqual(['engine one']);
    });

    it('a run on the same folder takes the place of the one before it', async () => {
      await one.members.register(ENGINE, LEASE_MS);
      await one.close();
      clock.advance(5_000);
      const next = await harness.open({ clock: clock.read, instanceId: 'one' });
      await next.members.register({ ...ENGINE, url: 'http://10.0.0.7:9000', version: '1.3.0' }, LEASE_MS);
      expect(await two.members.list()).toMatchObject([
        { id: 'one', url: 'http://10.0.0.7:9000', version: '1.3.0', startedAt: clock.read() },
      ]);
    });

    it('an orderly end removes that member, and no other of its process or of its role', async () => {
      for (const store of [one, two])
        for (const member of [ENGINE, TRAINER]) await store.members.register(member, LEASE_MS);
      await one.members.remove('engine');
      expect(await live(two)).toEqual(['engine two', 'trainer one', 'trainer two']);
      expect(await one.members.renew('engine', IDLE, LEASE_MS)).toBe(false);
      await one.members.remove('engine');
    });
  });
}

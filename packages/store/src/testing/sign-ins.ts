import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import { ALL_SCOPES, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const DAY_MS = 24 * 3600 * 1000;

export function signInSuite(makeHarness: MakeHarness): void {
  describe('browsers that are signed in', () => {
    let harness: StoreHarness;
    let store: Store;
    let clock: ManualClock;
    let entityId: string;
    beforeEach(async () => {
      clock = new ManualClock();
      harness = await makeHarness();
      store = await harness.open({ clock: clock.read });
      entityId = (await store.keys.ensureEntity('acme')).id;
    });
    afterEach(() => harness.destroy());
    const addKey = async (expiresAt: number | null = null) =>
      await store.keys.create({ entityId, name: 'laptop', scopes: ALL_SCOPES, expiresAt });

    it('a session represents its key, in another process and after a restart too', async () => {
      const { secret: _, ...key } = await addKey();
      const { secret, expiresAt } = await store.signIns.openSession(key.id);
      expect(secret).toMatch(/^[\w-]{43}$/);
      expect(await store.signIns.findSession(secret)).toEqual({ key, expiresAt });
      const other = await harness.open({ clock: clock.read });
      expect(await other.signIns.findSession(secret)).toEqual({ key, expiresAt });
      await store.close();
      await other.signIns.closeSession(secret);
      expect(await other.signIns.findSession(secret)).toBeNull();
    });

    it('a session lasts 30 days, or as long as its key', async () => {
      const [long, short] = [await addKey(), await addKey(clock.read() + DAY_MS)];
      const [first, second] = [await store.signIns.openSession(long.id), await store.signIns.openSession(short.id)];
      expect((await store.signIns.findSession(second.secret))?.expiresAt).toBe(clock.read() + DAY_MS);
      clock.advance(DAY_MS);
      expect(await store.signIns.findSession(second.secret)).toBeNull();
      clock.advance(29 * DAY_MS - 1);
      expect(await store.signIns.findSession(first.secret)).not.toBeNull();
      clock.advance(1);
      expect(await store.signIns.findSession(first.secret)).toBeNull();
    });

    it('a link works once, of two processes that try for one, and for 15 minutes', async () => {
      const { id } = await addKey();
      const other = await harness.open({ clock: clock.read });
      const [first, second, third] = [
        await store.signIns.createLink(id),
        await store.signIns.createLink(id),
        await store.signIns.createLink(id),
      ];
      const tries = await Promise.all([store, other, store].map((handle) => handle.signIns.redeemLink(first.secret)));
      expect(tries.filter((keyId) => keyId === id)).toHaveLength(1);
      expect(tries.filter((keyId) => keyId === null)).toHaveLength(2);
      clock.advance(15 * 60_000 - 1);
      expect(await store.signIns.redeemLink(second.secret)).toBe(id);
      clock.advance(1);
      expect(await store.signIns.redeemLink(third.secret)).toBeNull();
    });

    it('the secret of a link opens no session, and that of a session is no link', async () => {
      const { id } = await addKey();
      const [link, session] = [await store.signIns.createLink(id), await store.signIns.openSession(id)];
      expect(await store.signIns.findSession(link.secret)).toBeNull();
      expect(await store.signIns.redeemLink(session.secret)).toBeNull();
      await store.signIns.closeSession(link.secret);
      expect(await store.signIns.redeemLink(link.secret)).toBe(id);
      expect(await store.signIns.findSession(session.secret)).not.toBeNull();
      for (const wrong of ['', 'x', `${session.secret} `]) expect(await store.signIns.findSession(wrong)).toBeNull();
    });

    it('a key that is revoked takes its sessions and links with it, also when it is made valid again', async () => {
      const chosen = { entityId, name: 'env', scopes: ALL_SCOPES, secret: 'chosen', isServiceKey: true };
      const [key, other] = [await store.keys.ensure(chosen), await addKey()];
      const [session, link] = [await store.signIns.openSession(key.id), await store.signIns.createLink(key.id)];
      const theirs = await store.signIns.openSession(other.id);
      await store.keys.revoke(key.id);
      await store.keys.ensure(chosen);
      expect(await store.signIns.findSession(session.secret)).toBeNull();
      expect(await store.signIns.redeemLink(link.secret)).toBeNull();

      const again = await store.signIns.openSession(key.id);
      await store.keys.ensure({ ...chosen, secret: 'the next' });
      await store.keys.ensure(chosen);
      expect(await store.signIns.findSession(again.secret)).toBeNull();
      expect(await store.signIns.findSession(theirs.secret)).not.toBeNull();
    });

    it('of one key the newest hundred stay; those of others and of the other kind are not touched', async () => {
      const [key, other] = [await addKey(), await addKey()];
      const theirs = await store.signIns.createLink(other.id);
      const session = await store.signIns.openSession(key.id);
      const links: string[] = [];
      for (let count = 0; count < 101; count++) links.push((await store.signIns.createLink(key.id)).secret);
      expect(await store.signIns.redeemLink(links[0]!)).toBeNull();
      expect(await store.signIns.redeemLink(links[1]!)).toBe(key.id);
      expect(await store.signIns.redeemLink(theirs.secret)).toBe(other.id);
      expect(await store.signIns.findSession(session.secret)).not.toBeNull();
    });

    it('expired ones are removed, others stay; an unknown key gets none', async () => {
      const { id } = await addKey();
      const session = await store.signIns.openSession(id);
      const link = await store.signIns.createLink(id);
      clock.advance(DAY_MS);
      await store.purgeExpired();
      clock.advance(-DAY_MS);
      expect(await store.signIns.redeemLink(link.secret)).toBeNull();
      expect(await store.signIns.findSession(session.secret)).not.toBeNull();
      await expect(store.signIns.openSession('nobody')).rejects.toMatchObject({ code: 'store.constraint_violated' });
    });
  });
}

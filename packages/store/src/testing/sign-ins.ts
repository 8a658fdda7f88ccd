import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../contract/store.ts';
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
      entityId = (await store.ensureEntity('acme')).id;
    });
    afterEach(() => harness.destroy());
    const addKey = async (expiresAt: number | null = null) =>
      await store.createKey({ entityId, name: 'laptop', scopes: ALL_SCOPES, expiresAt });

    it('a session stands for its key, also in another process and after a restart', async () => {
      const { secret: _, ...key } = await addKey();
      const { secret, expiresAt } = await store.openSession(key.id);
      expect(secret).toMatch(/^[\w-]{43}$/);
      expect(await store.findSession(secret)).toEqual({ key, expiresAt });
      const other = await harness.open({ clock: clock.read });
      expect(await other.findSession(secret)).toEqual({ key, expiresAt });
      await store.close();
      await other.closeSession(secret);
      expect(await other.findSession(secret)).toBeNull();
    });

    it('a session lasts 30 days, or as long as its key', async () => {
      const [long, short] = [await addKey(), await addKey(clock.read() + DAY_MS)];
      const [first, second] = [await store.openSession(long.id), await store.openSession(short.id)];
      expect((await store.findSession(second.secret))?.expiresAt).toBe(clock.read() + DAY_MS);
      clock.advance(DAY_MS);
      expect(await store.findSession(second.secret)).toBeNull();
      clock.advance(29 * DAY_MS - 1);
      expect(await store.findSession(first.secret)).not.toBeNull();
      clock.advance(1);
      expect(await store.findSession(first.secret)).toBeNull();
    });

    it('a link works once, of two processes that try for one, and for 15 minutes', async () => {
      const { id } = await addKey();
      const other = await harness.open({ clock: clock.read });
      const [first, second, third] = [
        await store.createSignInLink(id),
        await store.createSignInLink(id),
        await store.createSignInLink(id),
      ];
      const tries = await Promise.all([store, other, store].map((handle) => handle.redeemSignInLink(first.secret)));
      expect(tries.filter((keyId) => keyId === id)).toHaveLength(1);
      expect(tries.filter((keyId) => keyId === null)).toHaveLength(2);
      clock.advance(15 * 60_000 - 1);
      expect(await store.redeemSignInLink(second.secret)).toBe(id);
      clock.advance(1);
      expect(await store.redeemSignInLink(third.secret)).toBeNull();
    });

    it('the secret of a link opens no session, and that of a session is no link', async () => {
      const { id } = await addKey();
      const [link, session] = [await store.createSignInLink(id), await store.openSession(id)];
      expect(await store.findSession(link.secret)).toBeNull();
      expect(await store.redeemSignInLink(session.secret)).toBeNull();
      await store.closeSession(link.secret);
      expect(await store.redeemSignInLink(link.secret)).toBe(id);
      expect(await store.findSession(session.secret)).not.toBeNull();
      for (const wrong of ['', 'x', `${session.secret} `]) expect(await store.findSession(wrong)).toBeNull();
    });

    it('a key that is revoked takes its sessions and links with it, also when it is made valid again', async () => {
      const chosen = { entityId, name: 'env', scopes: ALL_SCOPES, secret: 'chosen', isServiceKey: true };
      const [key, other] = [await store.ensureKey(chosen), await addKey()];
      const [session, link] = [await store.openSession(key.id), await store.createSignInLink(key.id)];
      const theirs = await store.openSession(other.id);
      await store.revokeKey(key.id);
      await store.ensureKey(chosen);
      expect(await store.findSession(session.secret)).toBeNull();
      expect(await store.redeemSignInLink(link.secret)).toBeNull();

      const again = await store.openSession(key.id);
      await store.ensureKey({ ...chosen, secret: 'the next' });
      await store.ensureKey(chosen);
      expect(await store.findSession(again.secret)).toBeNull();
      expect(await store.findSession(theirs.secret)).not.toBeNull();
    });

    it('of one key the newest hundred stay; those of others and of the other kind are not touched', async () => {
      const [key, other] = [await addKey(), await addKey()];
      const theirs = await store.createSignInLink(other.id);
      const session = await store.openSession(key.id);
      const links: string[] = [];
      for (let count = 0; count < 101; count++) links.push((await store.createSignInLink(key.id)).secret);
      expect(await store.redeemSignInLink(links[0]!)).toBeNull();
      expect(await store.redeemSignInLink(links[1]!)).toBe(key.id);
      expect(await store.redeemSignInLink(theirs.secret)).toBe(other.id);
      expect(await store.findSession(session.secret)).not.toBeNull();
    });

    it('what has expired is removed, what has not stays; an unknown key gets none', async () => {
      const { id } = await addKey();
      const session = await store.openSession(id);
      const link = await store.createSignInLink(id);
      clock.advance(DAY_MS);
      await store.purgeExpired();
      clock.advance(-DAY_MS);
      expect(await store.redeemSignInLink(link.secret)).toBeNull();
      expect(await store.findSession(session.secret)).not.toBeNull();
      await expect(store.openSession('nobody')).rejects.toMatchObject({ code: 'store.constraint_violated' });
    });
  });
}

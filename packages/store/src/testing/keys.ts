import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../contract/store.ts';
import { isDamagedSecret } from '../tables/keys/key-secret.ts';
import { ALL_SCOPES, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

export function keySuite(makeHarness: MakeHarness): void {
  describe('entities and keys', () => {
    let harness: StoreHarness;
    let store: Store;
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open();
    });
    afterEach(() => harness.destroy());

    it('an entity is made once, also when two callers ask at the same time', async () => {
      const other = await harness.open();
      const [first, second] = await Promise.all([store.ensureEntity('acme'), other.ensureEntity('acme')]);
      expect(second).toEqual(first);
      expect((await store.ensureEntity('other')).id).not.toBe(first.id);
    });

    it('a secret names its key, entity and scopes; any other secret names nobody', async () => {
      const entity = await store.ensureEntity('acme');
      const key = await store.createKey({ entityId: entity.id, name: 'laptop', scopes: ['inference', 'training'] });
      expect(await store.verifyKey(key.secret)).toEqual({
        keyId: key.id,
        entityId: entity.id,
        entity: 'acme',
        scopes: ['inference', 'training'],
        limits: null,
      });
      const altered = key.secret.slice(0, -1) + (key.secret.endsWith('A') ? 'B' : 'A');
      for (const wrong of ['', 'ty-', altered, `${key.secret} `, key.id])
        expect(await store.verifyKey(wrong)).toBeNull();
    });

    it('what anybody changes of a key counts from the next look on', async () => {
      const other = await harness.open();
      const { id: entityId } = await store.ensureEntity('acme');
      const key = await store.createKey({ entityId, name: 'laptop', scopes: ['inference'] });
      const limits = { requestsPerMinute: 7, tokensPerMinute: null, maxRequestsInFlight: null };
      for (const changing of [store, other]) {
        expect(await store.verifyKey(key.secret)).toMatchObject({ scopes: ['inference'], limits: null });
        await changing.setKeyLimits(key.id, limits);
        expect(await store.verifyKey(key.secret)).toMatchObject({ limits });
        await changing.ensureKey({ entityId, name: 'laptop', scopes: ['admin'], secret: key.secret });
        expect(await store.verifyKey(key.secret)).toMatchObject({ scopes: ['admin'] });
        await changing.revokeKey(key.id);
        expect(await store.verifyKey(key.secret)).toBeNull();
        await changing.setKeyLimits(key.id, { requestsPerMinute: null });
        await changing.ensureKey({ entityId, name: 'laptop', scopes: ['inference'], secret: key.secret });
      }
    });

    it('a key ends when its time has come, and says so', async () => {
      const clock = new ManualClock();
      store = await harness.open({ clock: clock.read });
      const { id: entityId } = await store.ensureEntity('acme');
      const key = await store.createKey({
        entityId,
        name: 'a day',
        scopes: ['inference'],
        expiresAt: clock.read() + 1000,
      });
      clock.advance(999);
      expect((await store.verifyKey(key.secret))?.keyId).toBe(key.id);
      clock.advance(1);
      expect(await store.verifyKey(key.secret)).toBeNull();
      expect(await store.getKey(key.id)).toMatchObject({ expiresAt: clock.read(), revokedAt: null, entity: 'acme' });
      expect(await store.getKey('nobody')).toBeNull();
    });

    it('a secret shows where it came from and whether it is whole; a chosen one shows nothing', async () => {
      const { id: entityId } = await store.ensureEntity('acme');
      const { secret, hint } = await store.createKey({ entityId, name: 'a', scopes: ALL_SCOPES });
      expect(secret).toMatch(/^ty-[\w-]{49}$/);
      expect(secret.startsWith(hint ?? 'none')).toBe(true);
      expect(hint).toHaveLength(7);
      expect(isDamagedSecret(secret)).toBe(false);
      for (let index = 0; index < secret.length; index += 1) {
        const mistyped = secret.slice(0, index) + (secret[index] === 'A' ? 'B' : 'A') + secret.slice(index + 1);
        expect(isDamagedSecret(mistyped), String(index)).toBe(index >= 3);
      }
      expect(isDamagedSecret(secret.slice(0, -1))).toBe(true);
      const chosen = { entityId, name: 'env', scopes: ALL_SCOPES, secret: 'my own secret' };
      expect((await store.ensureKey(chosen)).hint).toBeNull();
    });

    it("another key of the service takes the place of the one before, and nobody else's", async () => {
      const { id: entityId } = await store.ensureEntity('acme');
      const service = { entityId, name: 'admin', scopes: ALL_SCOPES, isServiceKey: true };
      const made = await store.createKey(service);
      const other = await store.createKey({ entityId, name: 'admin', scopes: ALL_SCOPES });
      expect((await store.ensureKey({ ...service, secret: 'first' })).numReplaced).toBe(1);
      expect((await store.ensureKey({ ...service, secret: 'second' })).numReplaced).toBe(1);
      expect((await store.ensureKey({ ...service, secret: 'second' })).numReplaced).toBe(0);
      for (const [secret, isValid] of [
        [made.secret, false],
        ['first', false],
        ['second', true],
        [other.secret, true],
      ] as const)
        expect((await store.verifyKey(secret)) !== null, secret).toBe(isValid);
    });

    it('secrets carry 256 random bits', async () => {
      const { id: entityId } = await store.ensureEntity('acme');
      const { secret } = await store.createKey({ entityId, name: 'a', scopes: ALL_SCOPES });
      const again = await store.createKey({ entityId, name: 'a', scopes: ALL_SCOPES });
      expect(Buffer.from(secret.slice(3, 46), 'base64url')).toHaveLength(32);
      expect(again.secret).not.toBe(secret);
    });

    it('a revoked key stops working at once and stays listed', async () => {
      const { id: entityId } = await store.ensureEntity('acme');
      const key = await store.createKey({ entityId, name: 'old', scopes: ['admin'] });
      await store.createKey({ entityId: (await store.ensureEntity('other')).id, name: 'theirs', scopes: ['admin'] });
      expect(await store.revokeKey(key.id)).toBe(true);
      expect(await store.revokeKey(key.id)).toBe(false);
      expect(await store.verifyKey(key.secret)).toBeNull();
      const mine = await store.listKeys(entityId);
      expect(mine.map((listed) => [listed.name, listed.revokedAt !== null])).toEqual([['old', true]]);
      expect(await store.listKeys()).toHaveLength(2);
    });

    it('an operator-chosen secret can be set again and again, and takes the newest scopes', async () => {
      const { id: entityId } = await store.ensureEntity('acme');
      const first = await store.ensureKey({ entityId, name: 'env', scopes: ['inference'], secret: 'chosen' });
      await store.revokeKey(first.id);
      const second = await store.ensureKey({ entityId, name: 'env', scopes: ALL_SCOPES, secret: 'chosen' });
      expect(second.id).toBe(first.id);
      expect((await store.verifyKey('chosen'))?.scopes).toEqual(ALL_SCOPES);
      expect(await store.listKeys(entityId)).toHaveLength(1);
    });

    it('a key of an unknown entity is refused', async () => {
      const input = { entityId: 'nobody', name: 'x', scopes: ALL_SCOPES };
      await expect(store.createKey(input)).rejects.toMatchObject({ code: 'store.constraint_violated' });
    });
  });
}

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import { isDamagedSecret } from '../parts/keys/key-secret.ts';
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
      const [first, second] = await Promise.all([store.keys.ensureEntity('acme'), other.keys.ensureEntity('acme')]);
      expect(second).toEqual(first);
      expect((await store.keys.ensureEntity('other')).id).not.toBe(first.id);
    });

    it('a secret identifies its key, entity and scopes; any other secret identifies none', async () => {
      const entity = await store.keys.ensureEntity('acme');
      const key = await store.keys.create({ entityId: entity.id, name: 'laptop', scopes: ['inference', 'training'] });
      expect(await store.keys.verify(key.secret)).toEqual({
        keyId: key.id,
        entityId: entity.id,
        entity: 'acme',
        scopes: ['inference', 'training'],
        limits: null,
      });
      const altered = key.secret.slice(0, -1) + (key.secret.endsWith('A') ? 'B' : 'A');
      for (const wrong of ['', 'ty-', altered, `${key.secret} `, key.id])
        expect(await store.keys.verify(wrong)).toBeNull();
    });

    it('any change of a key takes effect from the next read on', async () => {
      const other = await harness.open();
      const { id: entityId } = await store.keys.ensureEntity('acme');
      const key = await store.keys.create({ entityId, name: 'laptop', scopes: ['inference'] });
      const limits = { requestsPerMinute: 7, tokensPerMinute: null, maxRequestsInFlight: null };
      for (const changing of [store, other]) {
        expect(await store.keys.verify(key.secret)).toMatchObject({ scopes: ['inference'], limits: null });
        await changing.keys.setLimits(key.id, limits);
        expect(await store.keys.verify(key.secret)).toMatchObject({ limits });
        await changing.keys.ensure({ entityId, name: 'laptop', scopes: ['admin'], secret: key.secret });
        expect(await store.keys.verify(key.secret)).toMatchObject({ scopes: ['admin'] });
        await changing.keys.revoke(key.id);
        expect(await store.keys.verify(key.secret)).toBeNull();
        await changing.keys.setLimits(key.id, { requestsPerMinute: null });
        await changing.keys.ensure({ entityId, name: 'laptop', scopes: ['inference'], secret: key.secret });
      }
    });

    it('a key ends when its time has come, and reports it', async () => {
      const clock = new ManualClock();
      store = await harness.open({ clock: clock.read });
      const { id: entityId } = await store.keys.ensureEntity('acme');
      const key = await store.keys.create({
        entityId,
        name: 'a day',
        scopes: ['inference'],
        expiresAt: clock.read() + 1000,
      });
      clock.advance(999);
      expect((await store.keys.verify(key.secret))?.keyId).toBe(key.id);
      clock.advance(1);
      expect(await store.keys.verify(key.secret)).toBeNull();
      expect(await store.keys.get(key.id)).toMatchObject({ expiresAt: clock.read(), revokedAt: null, entity: 'acme' });
      expect(await store.keys.get('nobody')).toBeNull();
    });

    it('a secret shows its origin and whether it is complete; a chosen one shows nothing', async () => {
      const { id: entityId } = await store.keys.ensureEntity('acme');
      const { secret, hint } = await store.keys.create({ entityId, name: 'a', scopes: ALL_SCOPES });
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
      expect((await store.keys.ensure(chosen)).hint).toBeNull();
    });

    it('another key of the service replaces the previous one, and no other key', async () => {
      const { id: entityId } = await store.keys.ensureEntity('acme');
      const service = { entityId, name: 'admin', scopes: ALL_SCOPES, isServiceKey: true };
      const made = await store.keys.create(service);
      const other = await store.keys.create({ entityId, name: 'admin', scopes: ALL_SCOPES });
      expect((await store.keys.ensure({ ...service, secret: 'first' })).numReplaced).toBe(1);
      expect((await store.keys.ensure({ ...service, secret: 'second' })).numReplaced).toBe(1);
      expect((await store.keys.ensure({ ...service, secret: 'second' })).numReplaced).toBe(0);
      for (const [secret, isValid] of [
        [made.secret, false],
        ['first', false],
        ['second', true],
        [other.secret, true],
      ] as const)
        expect((await store.keys.verify(secret)) !== null, secret).toBe(isValid);
    });

    it('secrets carry 256 random bits', async () => {
      const { id: entityId } = await store.keys.ensureEntity('acme');
      const { secret } = await store.keys.create({ entityId, name: 'a', scopes: ALL_SCOPES });
      const again = await store.keys.create({ entityId, name: 'a', scopes: ALL_SCOPES });
      expect(Buffer.from(secret.slice(3, 46), 'base64url')).toHaveLength(32);
      expect(again.secret).not.toBe(secret);
    });

    it('a revoked key stops working at once and stays listed', async () => {
      const { id: entityId } = await store.keys.ensureEntity('acme');
      const key = await store.keys.create({ entityId, name: 'old', scopes: ['admin'] });
      await store.keys.create({
        entityId: (await store.keys.ensureEntity('other')).id,
        name: 'theirs',
        scopes: ['admin'],
      });
      expect(await store.keys.revoke(key.id)).toBe(true);
      expect(await store.keys.revoke(key.id)).toBe(false);
      expect(await store.keys.verify(key.secret)).toBeNull();
      const mine = await store.keys.list(entityId);
      expect(mine.map((listed) => [listed.name, listed.revokedAt !== null])).toEqual([['old', true]]);
      expect(await store.keys.list()).toHaveLength(2);
    });

    it('the last use of a key is written by the end of its process, and of all processes the latest remains', async () => {
      const clock = new ManualClock();
      const { id: entityId } = await store.keys.ensureEntity('acme');
      const [used, unused] = [
        await store.keys.create({ entityId, name: 'used', scopes: ['inference'] }),
        await store.keys.create({ entityId, name: 'unused', scopes: ['inference'] }),
      ];
      expect(used.lastUsedAt).toBeNull();
      const [early, late] = [await harness.open({ clock: clock.read }), await harness.open({ clock: clock.read })];
      const lastUsed = async () => (await store.keys.list(entityId)).map(({ lastUsedAt }) => lastUsedAt);
      const start = clock.read();
      early.keys.recordUse(used.id);
      clock.advance(90_000);
      late.keys.recordUse(used.id);
      late.keys.recordUse('unknown');
      await late.close();
      expect(await lastUsed()).toEqual([start + 90_000, null]);
      await early.close();
      expect(await lastUsed()).toEqual([start + 90_000, null]);
      expect(await store.keys.get(unused.id)).toMatchObject({ name: 'unused', lastUsedAt: null });
      expect(await store.keys.verify(used.secret)).toMatchObject({ keyId: used.id });
    });

    it('an operator-chosen secret can be set again and again, and takes the newest scopes', async () => {
      const { id: entityId } = await store.keys.ensureEntity('acme');
      const first = await store.keys.ensure({ entityId, name: 'env', scopes: ['inference'], secret: 'chosen' });
      await store.keys.revoke(first.id);
      const second = await store.keys.ensure({ entityId, name: 'env', scopes: ALL_SCOPES, secret: 'chosen' });
      expect(second.id).toBe(first.id);
      expect((await store.keys.verify('chosen'))?.scopes).toEqual(ALL_SCOPES);
      expect(await store.keys.list(entityId)).toHaveLength(1);
    });

    it('a key of an unknown entity is refused', async () => {
      const input = { entityId: 'nobody', name: 'x', scopes: ALL_SCOPES };
      await expect(store.keys.create(input)).rejects.toMatchObject({ code: 'store.constraint_violated' });
    });
  });
}

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../store.ts';
import { ALL_SCOPES, type MakeHarness, type StoreHarness } from './harness.ts';

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
      });
      const altered = key.secret.slice(0, -1) + (key.secret.endsWith('A') ? 'B' : 'A');
      for (const wrong of ['', 'ty-', altered, `${key.secret} `, key.id])
        expect(await store.verifyKey(wrong)).toBeNull();
    });

    it('secrets carry 256 random bits', async () => {
      const { id: entityId } = await store.ensureEntity('acme');
      const { secret } = await store.createKey({ entityId, name: 'a', scopes: ALL_SCOPES });
      const again = await store.createKey({ entityId, name: 'a', scopes: ALL_SCOPES });
      expect(Buffer.from(secret.slice('ty-'.length), 'base64url')).toHaveLength(32);
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

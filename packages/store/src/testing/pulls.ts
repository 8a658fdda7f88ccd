import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import type { MakeHarness, StoreHarness } from './harness.ts';

/** Pulls of base models, beyond the behaviour that all kinds of jobs share. */
export function pullSuite(makeHarness: MakeHarness): void {
  describe('pulls of base models', () => {
    let harness: StoreHarness;
    let store: Store;
    let entityId: string;
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open({ instanceId: 'one' });
      entityId = (await store.keys.ensureEntity('local')).id;
    });
    afterEach(() => harness.destroy());

    it('are one per base model while it lives, also of another entity', async () => {
      const other = (await store.keys.ensureEntity('other')).id;
      const first = await store.pulls.enqueue({ entityId, baseModel: 'org/a' });
      expect(first).toMatchObject({ kind: 'pull', status: 'queued', baseModel: 'org/a', modelId: null });
      const again = await Promise.all([
        store.pulls.enqueue({ entityId: other, baseModel: 'org/a', maxLive: 1 }),
        store.pulls.enqueue({ entityId, baseModel: 'org/a' }),
      ]);
      expect(again.map(({ id }) => id)).toEqual([first.id, first.id]);
      await expect(store.pulls.enqueue({ entityId, baseModel: 'org/b', maxLive: 1 })).rejects.toMatchObject({
        code: 'store.queue_full',
      });
    });

    it('are listed by base model with the newest, which may repeat one that failed', async () => {
      const first = await store.pulls.enqueue({ entityId, baseModel: 'org/a' });
      const other = await store.pulls.enqueue({ entityId, baseModel: 'org/b' });
      await store.jobs.cancel(first.id, 'enough');
      const second = await store.pulls.enqueue({ entityId, baseModel: 'org/a' });
      expect(second.id).not.toBe(first.id);
      const listed = await store.pulls.listNewest();
      expect(listed.map(({ id, baseModel }) => [id, baseModel])).toEqual([
        [other.id, 'org/b'],
        [second.id, 'org/a'],
      ]);
    });
  });
}

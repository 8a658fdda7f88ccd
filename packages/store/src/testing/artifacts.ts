import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NewArtifact } from '../parts/artifacts/artifacts.ts';
import type { Store } from '../parts/store.ts';
import { ManualClock, type MakeHarness, type StoreHarness } from './harness.ts';

export function artifactSuite(makeHarness: MakeHarness): void {
  describe('artifacts', () => {
    let harness: StoreHarness;
    let store: Store;
    let entityId: string;
    const clock = new ManualClock();
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open({ clock: clock.read });
      entityId = (await store.keys.ensureEntity('local')).id;
    });
    afterEach(() => harness.destroy());

    const file = (digest: string, overrides: Partial<NewArtifact> = {}): NewArtifact => ({
      entityId,
      project: 'demo',
      name: 'data',
      fileName: 'train.jsonl',
      blobKey: `artifacts/${digest}`,
      digest,
      sizeBytes: 10,
      numLines: 2,
      ...overrides,
    });
    const add = async (digest: string, overrides?: Partial<NewArtifact>) =>
      (await store.artifacts.add(file(digest, overrides))).artifact;
    const name = () => ({ entityId, project: 'demo', name: 'data' });

    it('versions of a name count from 0, and latest is the newest', async () => {
      const first = await add('a');
      expect(first).toEqual({
        ...file('a'),
        id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
        entity: 'local',
        version: 0,
        createdAt: clock.nowMs,
      });
      const second = await add('b');
      expect(second.version).toBe(1);
      expect((await add('c', { name: 'other' })).version).toBe(0);
      expect((await add('d', { project: 'other' })).version).toBe(0);
      expect(await store.artifacts.find(name(), 'latest')).toEqual(second);
      expect(await store.artifacts.find(name(), 0)).toEqual(first);
      expect(await store.artifacts.find(name(), 2)).toBeNull();
    });

    it('the same file again is the same version; an older one again is a new version', async () => {
      const first = await add('a');
      expect(await store.artifacts.add(file('a', { blobKey: 'artifacts/again' }))).toEqual({
        artifact: first,
        isNew: false,
      });
      await add('b');
      expect(await store.artifacts.add(file('a', { blobKey: 'artifacts/later' }))).toMatchObject({
        artifact: { version: 2 },
        isNew: true,
      });
    });

    it('a deleted version is gone, its number is never used again, and latest is the one before', async () => {
      const first = await add('a');
      const second = await add('b');
      expect(await store.artifacts.delete(second.id)).toBe(true);
      expect(await store.artifacts.delete(second.id)).toBe(false);
      expect(await store.artifacts.find(name(), 1)).toBeNull();
      expect(await store.artifacts.find(name(), 'latest')).toEqual(first);
      expect((await add('b', { blobKey: 'artifacts/b2' })).version).toBe(2);
    });

    it('each entity has its own names', async () => {
      const rival = (await store.keys.ensureEntity('rival')).id;
      await add('a');
      const theirs = await add('b', { entityId: rival });
      expect(theirs.version).toBe(0);
      expect((await store.artifacts.list({ entityId: rival })).items).toEqual([theirs]);
      expect(await store.artifacts.find({ ...name(), entityId: rival }, 'latest')).toEqual(theirs);
    });

    it('lists all of an entity, a project or a name, page by page, past a deleted cursor', async () => {
      const added = [];
      for (const digest of ['a', 'b', 'c']) added.push(await add(digest));
      const other = await add('x', { name: 'other' });
      const inOtherProject = await add('y', { project: 'elsewhere' });
      expect((await store.artifacts.list({ entityId })).items).toEqual([...added, other, inOtherProject]);
      expect((await store.artifacts.list({ entityId, project: 'demo' })).items).toEqual([...added, other]);
      const page = await store.artifacts.list({ ...name(), limit: 2 });
      expect(page).toEqual({ items: added.slice(0, 2), hasMore: true });
      await store.artifacts.delete(added[1]!.id);
      const rest = await store.artifacts.list({ ...name(), after: added[1]!.id, order: 'asc' });
      expect(rest).toEqual({ items: [added[2]], hasMore: false });
    });

    it('names the blobs of rows that are not deleted', async () => {
      const kept = await add('a');
      const doomed = await add('b');
      await store.artifacts.delete(doomed.id);
      expect((await store.files.listReferenced()).blobKeys).toEqual([kept.blobKey]);
    });
  });
}

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { LiveAnswer, NewKeptAnswer, NewLiveAnswer } from '../parts/kept-answers/kept-answers.ts';
import type { KeptScope } from '../parts/kept-answers/kept-scope.ts';
import type { Store } from '../parts/store.ts';
import { addModel, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const HOUR_MS = 3600 * 1000;
const DAY_MS = 24 * HOUR_MS;

export function keptAnswerSuite(makeHarness: MakeHarness): void {
  describe('kept answers', () => {
    let harness: StoreHarness;
    let store: Store;
    let scope: KeptScope;
    let clock: ManualClock;
    beforeEach(async () => {
      clock = new ManualClock();
      harness = await makeHarness();
      store = await harness.open({ clock: clock.read });
      scope = { entityId: (await store.keys.ensureEntity('local')).id, project: '' };
    });
    afterEach(() => harness.destroy());

    const answer = (id: string, fields: Partial<NewKeptAnswer> = {}): NewKeptAnswer => ({
      ...scope,
      id,
      keyId: 'key',
      modelId: null,
      status: 'completed',
      answer: JSON.stringify({ id, text: 'Ünï 🚂 \u0000' }),
      itemIds: [`msg_${id}`],
      input: '[{"id":"msg_in"}]',
      ...fields,
    });
    const begin = async (at: Store, id: string, fields: Partial<NewLiveAnswer> = {}): Promise<LiveAnswer> => {
      const live = { ...answer(id), status: 'queued', itemIds: [], leaseMs: 30_000, ...fields } as const;
      const started = await at.keptAnswers.begin(live);
      if (typeof started === 'string') throw new Error(started);
      return started;
    };
    const isKnown = async (id: string, where = scope) => (await store.keptAnswers.find(where, id)) !== null;
    /** Incompressible text. */
    const noise = (length: number) =>
      JSON.stringify(Array.from({ length: length / 36 }, () => crypto.randomUUID()).join(''));

    it('come back as they were, also from another handle', async () => {
      expect(await store.keptAnswers.keep(answer('a'))).toBe('kept');
      const { answer: text, input } = answer('a');
      const expected = { ...scope, id: 'a', status: 'completed', answer: text, createdAt: clock.nowMs };
      expect(await store.keptAnswers.find(scope, 'a')).toEqual(expected);
      const other = await harness.open({ clock: clock.read });
      expect(await other.keptAnswers.find(scope, 'a')).toEqual(expected);
      expect(await other.keptAnswers.findWhole(scope, 'a')).toEqual({ ...expected, input });
      expect(await other.keptAnswers.findItem(scope, 'msg_a')).toEqual({ id: 'a', answer: text });
      expect(await other.keptAnswers.findItem(scope, 'msg_b')).toBeNull();
    });

    it('report the bytes of their texts without unpacking them', async () => {
      const text = JSON.stringify('ä'.repeat(100_000));
      await store.keptAnswers.keep(answer('a', { answer: text, input: '[]' }));
      const reportedSizes: number[] = [];
      const recordSize = async (numBytes: number) => void reportedSizes.push(numBytes);
      await store.keptAnswers.findWhole(scope, 'a', recordSize);
      expect(await store.keptAnswers.findItem(scope, 'msg_a', recordSize)).toEqual({ id: 'a', answer: text });
      expect(reportedSizes).toEqual([200_004, 200_002]);
      const refuse = () => Promise.reject(new Error('no room'));
      await expect(store.keptAnswers.findWhole(scope, 'a', refuse)).rejects.toThrow('no room');
      await expect(store.keptAnswers.findItem(scope, 'msg_a', refuse)).rejects.toThrow('no room');
    });

    it('are unknown to other entities and projects, which may use the same id', async () => {
      const scopes = [
        scope,
        { ...scope, project: 'demo' },
        { entityId: (await store.keys.ensureEntity('other')).id, project: '' },
      ];
      for (const [index, own] of scopes.entries()) {
        for (const later of scopes.slice(index)) {
          expect(await isKnown('a', later)).toBe(false);
          expect(await isKnown('a\0', later)).toBe(false);
          expect(await store.keptAnswers.findItem(later, 'a\0')).toBeNull();
          expect(await store.keptAnswers.status({ ...later, id: 'a\0' })).toBeNull();
          expect(await store.keptAnswers.delete(later, 'a\0')).toBe(false);
          expect(await store.keptAnswers.findItem(later, 'msg_a')).toBeNull();
          expect(await store.keptAnswers.delete(later, 'a')).toBe(false);
        }
        await store.keptAnswers.keep(answer('a', { ...own, answer: JSON.stringify(index) }));
      }
      for (const [index, own] of scopes.entries())
        expect((await store.keptAnswers.find(own, 'a'))?.answer).toBe(JSON.stringify(index));
      expect(await store.keptAnswers.delete(scope, 'a')).toBe(true);
      expect(await Promise.all(scopes.map((own) => isKnown('a', own)))).toEqual([false, true, true]);
      expect(await store.keptAnswers.findItem(scope, 'msg_a')).toBeNull();
    });

    it('an ended answer is replaced by a later one with its id', async () => {
      await store.keptAnswers.keep(answer('a'));
      await store.keptAnswers.keep(answer('a', { answer: '"later"', itemIds: ['msg_later'] }));
      expect((await store.keptAnswers.find(scope, 'a'))?.answer).toBe('"later"');
      expect(await store.keptAnswers.findItem(scope, 'msg_a')).toBeNull();
    });

    it('expire when they are purged, and by nothing else', async () => {
      const short = await harness.open({ clock: clock.read, keptAnswers: { lifetimeMs: HOUR_MS } });
      await store.keptAnswers.keep(answer('long'));
      await short.keptAnswers.keep(answer('short'));
      clock.advance(HOUR_MS);
      expect([await isKnown('long'), await isKnown('short')]).toEqual([true, true]);
      await store.purgeExpired();
      expect([await isKnown('long'), await isKnown('short')]).toEqual([true, false]);
      clock.advance(DAY_MS);
      await store.purgeExpired();
      expect(await isKnown('long')).toBe(false);
    });

    it('of one entity have a total size; its oldest go first, and those of others stay', async () => {
      const small = await harness.open({ clock: clock.read, keptAnswers: { maxBytes: 100_000 } });
      const other = { entityId: (await store.keys.ensureEntity('other')).id, project: '' };
      await small.keptAnswers.keep(answer('theirs', other));
      const ids = Array.from({ length: 12 }, (_, index) => String(index));
      for (const id of ids) await small.keptAnswers.keep(answer(id, { input: noise(40_000) }));
      const known = [];
      for (const id of ids) if (await isKnown(id)) known.push(id);
      expect(known.length).toBeGreaterThan(1);
      expect(known).toEqual(ids.slice(-known.length));
      expect(await isKnown('theirs', other)).toBe(true);
      const { numAnswers, sizeBytes } = await store.keptAnswers.count();
      expect(numAnswers).toBe(known.length + 1);
      expect(sizeBytes).toBeLessThan(105_000);
    });

    it('evict for growing and finished answers, keep the latest, and refuse answers above the limit', async () => {
      const small = await harness.open({ clock: clock.read, keptAnswers: { maxBytes: 100_000 } });
      const { keptAnswers } = small;
      await keptAnswers.keep(answer('old', { input: noise(40_000) }));
      const [live, other] = [await begin(small, 'live'), await begin(small, 'other')];
      await keptAnswers.keep(answer('new', { input: noise(30_000) }));
      expect(await keptAnswers.keep(answer('large', { input: noise(400_000) }))).toBe('full');
      expect([await isKnown('large'), await isKnown('old'), await isKnown('new')]).toEqual([false, true, true]);
      await keptAnswers.update(live, { events: { firstNumber: 0, events: [noise(130_000)] } });
      expect([await isKnown('old'), await isKnown('new')]).toEqual([false, true]);
      const done = { status: 'completed', answer: noise(36_000), itemIds: [] } as const;
      await keptAnswers.update(other, { state: done });
      expect([await isKnown('new'), await isKnown('other')]).toEqual([false, true]);
      await keptAnswers.update(live, { events: { firstNumber: 1, events: [noise(130_000)] } });
      await expect(begin(small, 'next')).rejects.toThrow('full');
      expect(await keptAnswers.keep(answer('next'))).toBe('full');
      await keptAnswers.end(live, { ...done, status: 'cancelled', answer: '{}' });
      expect(await keptAnswers.keep(answer('next'))).toBe('kept');
    });

    it('that are live belong to one process until they end once, by any process', async () => {
      const [here, there] = [
        await harness.open({ clock: clock.read, instanceId: 'here' }),
        await harness.open({ clock: clock.read, instanceId: 'there' }),
      ];
      const [key, other] = [await begin(here, 'a'), await begin(here, 'b')];
      await expect(begin(here, 'a')).rejects.toThrow('busy');
      expect(await here.keptAnswers.keep(answer('a'))).toBe('busy');
      expect([await here.keptAnswers.listOwn(), await there.keptAnswers.listOwn()]).toEqual([[key, other], []]);
      const progress = { status: 'in_progress', answer: '"on"', itemIds: [] } as const;
      const events = { firstNumber: 0, events: ['{"n":0}', '{"n":1}'] };
      expect(await there.keptAnswers.update(key, { state: progress, events })).toBe(false);
      expect(await here.keptAnswers.update(key, { state: progress, events })).toBe(true);
      expect(await here.keptAnswers.update(key, { events: { firstNumber: 2, events: ['{"n":2}'] } })).toBe(true);
      expect(await there.keptAnswers.find(scope, 'a')).toMatchObject({ status: 'in_progress', answer: '"on"' });
      const later = [{ firstNumber: 2, events: ['{"n":2}'] }];
      expect(await there.keptAnswers.readEvents(key, 0, 10)).toEqual([events, ...later]);
      expect(await there.keptAnswers.readEvents(key, 1, 10)).toEqual([events, ...later]);
      expect(await there.keptAnswers.readEvents(key, 2, 10)).toEqual(later);
      const done = { status: 'completed', answer: '"done"', itemIds: ['msg_done'] } as const;
      expect(await here.keptAnswers.update(key, { state: done })).toBe(true);
      const cancelled = { status: 'cancelled', answer: '"cancelled"', itemIds: [] } as const;
      expect(await there.keptAnswers.end(key, cancelled)).toBe(false);
      expect(await there.keptAnswers.end(other, cancelled)).toBe(true);
      expect(await here.keptAnswers.update(other, { state: done })).toBe(false);
      expect(await there.keptAnswers.status(key)).toEqual({ status: 'completed', lost: null });
      expect(await there.keptAnswers.status(other)).toEqual({ status: 'cancelled', lost: null });
      expect(await there.keptAnswers.findItem(scope, 'msg_done')).toMatchObject({ id: 'a' });
    });

    it('with a used id are new ones: the process of the earlier answer cannot change them', async () => {
      const earlier = await begin(store, 'a', { events: ['{"n":0}'] });
      await store.keptAnswers.delete(scope, 'a');
      const later = await begin(store, 'a', { events: ['{"n":"later"}'] });
      expect(later.row).not.toBe(earlier.row);
      const done = { status: 'completed', answer: '"earlier"', itemIds: [] } as const;
      const events = { firstNumber: 0, events: ['{"n":"earlier"}'] };
      expect(await store.keptAnswers.update(earlier, { events })).toBe(false);
      expect(await store.keptAnswers.update(earlier, { state: done })).toBe(false);
      await store.keptAnswers.renew([earlier], 90_000);
      expect(await store.keptAnswers.end(later, done, { ...earlier, leaseEndedAt: clock.nowMs + 30_000 })).toBe(false);
      expect(await store.keptAnswers.listOwn()).toEqual([later]);
      expect(await store.keptAnswers.readEvents(later, 0, 10)).toEqual([{ firstNumber: 0, events: ['{"n":"later"}'] }]);
      clock.advance(30_000);
      expect(await store.keptAnswers.listLost(10)).toEqual([{ ...later, leaseEndedAt: clock.nowMs }]);
    });

    it('have events, which are read in parts, compressed and counted once', async () => {
      const key = await begin(store, 'a');
      const { sizeBytes } = await store.keptAnswers.count();
      const grown = async () => (await store.keptAnswers.count()).sizeBytes - sizeBytes;
      const many = Array.from({ length: 40 }, (_, n) => JSON.stringify({ n, delta: 'the same text', item_id: 'msg' }));
      const sizes = [];
      for (const events of [many, many.slice(0, 20), many]) {
        await store.keptAnswers.update(key, { events: { firstNumber: 0, events } });
        sizes.push(await grown());
      }
      expect(sizes[2]).toBe(sizes[0]);
      expect(sizes[1]).toBeLessThan(sizes[0]!);
      expect(sizes[0]).toBeLessThan(many.join('\n').length / 4);
      await store.keptAnswers.update(key, { events: { firstNumber: 40, events: ['{"n":40}'] } });
      const [first, last] = await store.keptAnswers.readEvents(key, 0, 10);
      expect([first?.events, last?.events]).toEqual([many, ['{"n":40}']]);
      expect(await store.keptAnswers.readEvents(key, 0, 1)).toEqual([first]);
      expect(await store.keptAnswers.readEvents(key, 1000, 1)).toEqual([last]);
    });

    it('of a process that died are lost once their lease ends, and at once when it starts again', async () => {
      const died = await harness.open({ clock: clock.read, instanceId: 'died' });
      const key = await begin(died, 'a');
      const failed = { status: 'failed', answer: '"failed"', itemIds: [] } as const;
      clock.advance(29_000);
      await died.keptAnswers.renew([key], 30_000);
      await store.keptAnswers.renew([key], 90_000);
      clock.advance(29_000);
      expect(await store.keptAnswers.listLost(10)).toEqual([]);
      clock.advance(1_000);
      const lost = { ...key, leaseEndedAt: clock.nowMs };
      expect(await store.keptAnswers.listLost(10)).toEqual([lost]);
      expect(await store.keptAnswers.status(key)).toEqual({ status: 'queued', lost });
      // A late heartbeat counts.
      expect(await store.keptAnswers.end(key, failed, { ...lost, leaseEndedAt: clock.nowMs - 1_000 })).toBe(false);
      expect(await store.keptAnswers.end(key, failed, lost)).toBe(true);
      expect(await died.keptAnswers.update(key, { state: { ...failed, status: 'completed' } })).toBe(false);
      const later = await begin(died, 'b');
      expect(await store.keptAnswers.listLost(10)).toEqual([]);
      await (await harness.open({ clock: clock.read, instanceId: 'died' })).recoverAfterRestart();
      expect(await store.keptAnswers.listLost(10)).toEqual([{ ...later, leaseEndedAt: 0 }]);
      // Live answers are not removed by age.
      clock.advance(8 * DAY_MS);
      await store.purgeExpired();
      expect([await isKnown('a'), await isKnown('b')]).toEqual([false, true]);
    });

    it('go with their model, those of answers that end later included', async () => {
      const model = await addModel(store);
      await store.keptAnswers.keep(answer('a', { modelId: model.id }));
      await store.keptAnswers.keep(answer('base'));
      await store.models.delete(model.id);
      expect(await store.keptAnswers.keep(answer('late', { modelId: model.id }))).toBe('model_deleted');
      expect([await isKnown('a'), await isKnown('late'), await isKnown('base')]).toEqual([false, false, true]);
      clock.advance(8 * DAY_MS);
      expect(await store.purgeExpired()).toMatchObject({ numModels: 1 });
    });
  });
}

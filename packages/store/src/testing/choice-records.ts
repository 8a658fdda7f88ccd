import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type NewChoiceRecord, recordIdByTokens } from '../parts/choice-records/choice-records.ts';
import type { Model } from '../parts/models/models.ts';
import type { Store } from '../parts/store.ts';
import { addModel, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const HOUR_MS = 3600 * 1000;
const DAY_MS = 24 * HOUR_MS;

export function choiceRecordSuite(makeHarness: MakeHarness): void {
  describe('records of choices', () => {
    let harness: StoreHarness;
    let store: Store;
    let model: Model;
    let clock: ManualClock;
    beforeEach(async () => {
      clock = new ManualClock();
      harness = await makeHarness();
      store = await harness.open({ clock: clock.read });
      model = await addModel(store);
    });
    afterEach(() => harness.destroy());

    const sampled = (fields: Partial<NewChoiceRecord> = {}): NewChoiceRecord => ({
      answerId: crypto.randomUUID(),
      choiceIndex: 0,
      entityId: model.entityId,
      modelId: model.id,
      step: 3,
      digest: 'ab12',
      promptTokenIds: Int32Array.of(1, 2, 3),
      tokenIds: Int32Array.of(5, 2 ** 31 - 1, 0),
      logprobs: Float32Array.of(-0.1, -9999, 0),
      ...fields,
    });
    const find = async (id: string, entityId = model.entityId, from = store) =>
      (await from.choiceRecords.find(entityId, [id])).get(id);
    const isKnown = async (id: string) => (await find(id)) !== undefined;

    it('come back as they were, also from another handle and after the store was closed', async () => {
      const record = sampled();
      const id = await store.choiceRecords.add(record);
      const expected = { ...record, createdAt: clock.nowMs };
      expect(await find(id)).toEqual(expected);
      await store.close();
      expect(await find(id, model.entityId, await harness.open({ clock: clock.read }))).toEqual(expected);
    });

    it('report the sampling of a choice, if it is known; its size counts', async () => {
      const trace = { logprobs: Float32Array.of(-1, 0, -2), kept: Uint8Array.of(0, 1, 255) };
      const settings = { temperature: 0.5, logitBias: [[3, 4]] };
      const ways: Pick<NewChoiceRecord, 'sampling'>[] = [
        {},
        { sampling: null },
        { sampling: { settings, trace, lost: null } },
        { sampling: { settings, trace: null, lost: 'greedy' } },
      ];
      for (const way of ways) {
        const record = sampled(way);
        expect(await find(await store.choiceRecords.add(record))).toEqual({ ...record, createdAt: clock.nowMs });
      }
      const small = await harness.open({ clock: clock.read, choiceRecords: { maxBytes: 10_000 } });
      const large = { settings, trace: { logprobs: new Float32Array(3), kept: new Uint8Array(8000) }, lost: null };
      const ids: string[] = [];
      for (let index = 0; index < 2; index += 1) ids.push(await small.choiceRecords.add(sampled({ sampling: large })));
      expect([...(await small.choiceRecords.find(model.entityId, ids)).keys()]).toEqual([ids[1]]);
    });

    it('are written on close, and views of larger arrays are written as they are seen', async () => {
      const ids = Int32Array.from({ length: 9 }, (_, index) => index);
      const id = await store.choiceRecords.add(
        sampled({ tokenIds: ids.subarray(2, 5), promptTokenIds: ids.subarray(7) }),
      );
      await store.close();
      const found = await find(id, model.entityId, await harness.open({ clock: clock.read }));
      expect([[...found!.promptTokenIds], [...found!.tokenIds]]).toEqual([
        [7, 8],
        [2, 3, 4],
      ]);
    });

    it('have long prompts, which are returned and count with their stored size', async () => {
      const promptTokenIds = Int32Array.from({ length: 20_000 }, (_, index) => (index * 31) % 1000);
      const small = await harness.open({ clock: clock.read, choiceRecords: { maxBytes: 80_000 } });
      const ids: string[] = [];
      for (let index = 0; index < 2; index += 1) ids.push(await small.choiceRecords.add(sampled({ promptTokenIds })));
      const found = await small.choiceRecords.find(model.entityId, ids);
      expect([...found.values()].map((record) => record.promptTokenIds)).toEqual([promptTokenIds, promptTokenIds]);
    });

    it('of one answer share it, each with its own tokens', async () => {
      const answerId = crypto.randomUUID();
      const ids = await Promise.all(
        [0, 1].map((choiceIndex) =>
          store.choiceRecords.add(sampled({ answerId, choiceIndex, tokenIds: Int32Array.of(choiceIndex, 8, 9) })),
        ),
      );
      const found = await store.choiceRecords.find(model.entityId, [...ids, `${answerId}-2`, 'x', '', 'a-b-c']);
      expect([...found].map(([id, record]) => [id, record.tokenIds[0], record.promptTokenIds.length])).toEqual([
        [ids[0], 0, 3],
        [ids[1], 1, 3],
      ]);
    });

    it('the same choice twice is the first one', async () => {
      const record = sampled();
      const id = await store.choiceRecords.add(record);
      await find(id);
      await store.choiceRecords.add({ ...record, tokenIds: Int32Array.of(7, 7, 7) });
      expect((await find(id))?.tokenIds).toEqual(record.tokenIds);
    });

    it('are found by their tokens and log-probabilities, the newest of equal ones, unless these were drawn in different ways', async () => {
      const record = sampled({ sampling: null });
      const key = recordIdByTokens(record);
      expect(await find(key)).toBeUndefined();
      await store.choiceRecords.add(record);
      clock.advance(1);
      const newer = sampled({ sampling: null, promptTokenIds: Int32Array.of(9) });
      await store.choiceRecords.add(newer);
      expect(await find(key)).toEqual({ ...newer, createdAt: clock.nowMs });
      expect(await find(recordIdByTokens(sampled({ logprobs: Float32Array.of(-0.1, -9999, -0.5) })))).toBeUndefined();
      expect(await find(key, (await store.keys.ensureEntity('other')).id)).toBeUndefined();
      await store.choiceRecords.add(
        sampled({ sampling: { settings: { temperature: 0.5 }, trace: null, lost: 'too_large' } }),
      );
      expect(await find(key)).toBeUndefined();
    });

    it('are unknown to other entities', async () => {
      const id = await store.choiceRecords.add(sampled());
      const other = await store.keys.ensureEntity('other');
      expect(await find(id, other.id)).toBeUndefined();
      expect(await isKnown(id)).toBe(true);
    });

    it('expire when they are purged, and by nothing else: a clock that is ahead takes no record away', async () => {
      const early = await store.choiceRecords.add(sampled());
      clock.advance(DAY_MS - 1);
      const late = await store.choiceRecords.add(sampled());
      expect([await isKnown(early), await isKnown(late)]).toEqual([true, true]);
      clock.advance(1);
      expect([await isKnown(early), await isKnown(late)]).toEqual([true, true]);
      await store.purgeExpired();
      expect([await isKnown(early), await isKnown(late)]).toEqual([false, true]);
      clock.advance(40 * DAY_MS);
      const ahead = await store.choiceRecords.add(sampled());
      clock.advance(-40 * DAY_MS);
      expect([await isKnown(late), await isKnown(ahead)]).toEqual([true, true]);
      clock.advance(DAY_MS);
      await store.purgeExpired();
      expect([await isKnown(late), await isKnown(ahead)]).toEqual([false, true]);
    });

    it('have a lifetime and a size of choice; the oldest go first', async () => {
      const limits = { lifetimeMs: HOUR_MS, maxBytes: 100_000 };
      const small = await harness.open({ clock: clock.read, choiceRecords: limits });
      const length = 1000; // 8 kB
      const arrays = { tokenIds: new Int32Array(length), logprobs: new Float32Array(length) };
      const ids: string[] = [];
      for (let index = 0; index < 30; index += 1) {
        ids.push(await small.choiceRecords.add(sampled(arrays)));
        if (index % 7 === 0) await small.choiceRecords.find(model.entityId, []);
      }
      const found = await small.choiceRecords.find(model.entityId, ids);
      // 100,000 bytes ÷ (8,000 of arrays, 12 of prompt, some for the row).
      expect([...found.keys()]).toEqual(ids.slice(-11));
      clock.advance(HOUR_MS);
      await small.purgeExpired();
      expect((await small.choiceRecords.find(model.entityId, ids)).size).toBe(0);
      const last = await small.choiceRecords.add(sampled(arrays));
      expect((await small.choiceRecords.find(model.entityId, [last])).size).toBe(1);
    });

    it('go with their model, those of answers that end later included', async () => {
      const other = await addModel(store, 'other');
      const pending = sampled();
      const ids = [
        await store.choiceRecords.add(pending),
        await store.choiceRecords.add(sampled({ modelId: other.id })),
      ];
      await store.models.delete(model.id);
      ids.push(await store.choiceRecords.add(sampled()));
      expect([...(await store.choiceRecords.find(model.entityId, ids)).keys()]).toEqual([ids[1]]);
      clock.advance(8 * DAY_MS);
      expect(await store.purgeExpired()).toMatchObject({ numModels: 1 });
    });

    it('one with arrays of different lengths is refused, and delays nothing', async () => {
      const id = await store.choiceRecords.add(sampled());
      await expect(store.choiceRecords.add(sampled({ logprobs: new Float32Array(2) }))).rejects.toThrow(
        'one log-probability',
      );
      expect(await isKnown(id)).toBe(true);
    });
  });
}

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ConversationItem, ConversationKey } from '../parts/kept-answers/conversations.ts';
import type { IdempotentAnswer } from '../parts/idempotency/idempotency.ts';
import type { NewKeptAnswer } from '../parts/kept-answers/kept-answers.ts';
import type { KeptScope } from '../parts/kept-answers/kept-scope.ts';
import type { Store } from '../parts/store.ts';
import { type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const HOUR_MS = 3600 * 1000;
const DAY_MS = 24 * HOUR_MS;

export function conversationSuite(makeHarness: MakeHarness): void {
  describe('conversations', () => {
    let harness: StoreHarness;
    let store: Store;
    let scope: KeptScope;
    let key: ConversationKey;
    let clock: ManualClock;
    beforeEach(async () => {
      clock = new ManualClock();
      harness = await makeHarness();
      store = await harness.open({ clock: clock.read });
      scope = { entityId: (await store.keys.ensureEntity('local')).id, project: '' };
      key = { ...scope, id: 'conv_a' };
    });
    afterEach(() => harness.destroy());

    const item = (id: string, text = 'Ünï 🚂 \u0000'): ConversationItem => ({ id, item: JSON.stringify({ id, text }) });
    const make = (id = 'conv_a', items: ConversationItem[] = [], at = store) =>
      at.conversations.create({ ...scope, id, metadata: '{}', items });
    const idsOf = async (where = key, at = store) =>
      (await at.conversations.readAll(where))?.map(({ id }) => id) ?? null;
    const noise = (length: number) => Array.from({ length: length / 36 }, () => crypto.randomUUID()).join('');
    const answer = (fields: Partial<NewKeptAnswer> = {}): NewKeptAnswer => ({
      ...scope,
      id: 'resp',
      keyId: 'key',
      modelId: null,
      status: 'completed',
      answer: '{}',
      itemIds: [],
      input: '[]',
      ...fields,
    });

    it('come back with their items in order, also from another handle', async () => {
      const items = [item('c'), item('a'), item('b', 'x'.repeat(10_000))];
      const made = { ...key, metadata: '{}', createdAt: clock.nowMs };
      expect(await make('conv_a', items.slice(0, 2))).toEqual(made);
      expect(await make()).toBe('taken');
      const other = await harness.open({ clock: clock.read });
      expect(await other.conversations.add(key, items.slice(2))).toBe('added');
      expect(await store.conversations.readAll(key)).toEqual(items);
      expect(await other.conversations.find(key)).toEqual(made);
      expect(await other.conversations.findItem(key, 'a')).toEqual(item('a'));
      expect(await other.conversations.findItem(key, 'd')).toBeNull();
      const sizes: number[] = [];
      await store.conversations.readAll(key, { before: async (numBytes) => void sizes.push(numBytes) });
      expect(sizes).toEqual([items.reduce((sum, { item: text }) => sum + Buffer.byteLength(text), 0)]);
      const changed = await store.conversations.setMetadata(key, '{"topic":"🚂"}');
      expect(changed).toEqual(await other.conversations.find(key));
      expect(changed?.metadata).toBe('{"topic":"🚂"}');
    });

    it('are listed in pages, from either end', async () => {
      const ids = ['e', 'd', 'c', 'b', 'a'];
      await make(
        'conv_a',
        ids.map((id) => item(id)),
      );
      for (const isAscending of [true, false]) {
        const seen: string[] = [];
        let page = await store.conversations.listItems(key, { limit: 2, isAscending });
        for (;;) {
          seen.push(...page!.items.map(({ id }) => id));
          if (!page!.hasMore) break;
          page = await store.conversations.listItems(key, { limit: 2, isAscending, after: seen.at(-1) });
        }
        expect(seen).toEqual(isAscending ? ids : ids.toReversed());
      }
      for (const after of ['x', 'a\0'])
        await expect(store.conversations.listItems(key, { limit: 2, isAscending: true, after })).rejects.toMatchObject({
          code: 'store.cursor_unknown',
        });
    });

    it('are unknown to other entities and projects, which may use the same ids', async () => {
      const scopes = [
        scope,
        { ...scope, project: 'demo' },
        { entityId: (await store.keys.ensureEntity('other')).id, project: '' },
      ];
      const { conversations } = store;
      for (const [index, own] of scopes.entries()) {
        for (const later of scopes.slice(index)) {
          for (const id of ['conv_a', 'conv_a\0']) {
            const theirs = { ...later, id };
            expect(await conversations.find(theirs)).toBeNull();
            expect(await conversations.readAll(theirs)).toBeNull();
            expect(await conversations.listItems(theirs, { limit: 1, isAscending: true })).toBeNull();
            expect(await conversations.findItem(theirs, 'm')).toBeNull();
            expect(await conversations.setMetadata(theirs, '{}')).toBeNull();
            expect(await conversations.add(theirs, [item('n')])).toBe('unknown');
            expect(await conversations.deleteItem(theirs, 'm')).toBeNull();
            expect(await conversations.delete(theirs)).toBe(false);
          }
          expect(await conversations.append({ conversation: { ...later, id: 'conv_a' }, items: [] })).toBe(false);
          expect(await conversations.findItemOfAny(later, 'm')).toBeNull();
          expect(await conversations.findItemOfAny(later, 'm\0')).toBeNull();
        }
        const items = [item('m', String(index))];
        expect(await conversations.create({ ...own, id: 'conv_a', metadata: '{}', items })).toMatchObject(own);
      }
      for (const [index, own] of scopes.entries())
        expect(await conversations.findItemOfAny(own, 'm')).toEqual(item('m', String(index)));
      expect(await conversations.delete(key)).toBe(true);
      expect(await conversations.findItemOfAny(scope, 'm')).toBeNull();
      expect(await idsOf({ ...scopes[1]!, id: 'conv_a' })).toEqual(['m']);
    });

    it('lose an item, and its room, and no other', async () => {
      await make('conv_a', [item('a')]);
      const { sizeBytes } = await store.conversations.count();
      await store.conversations.add(key, [item('b', noise(36_000)), item('c')]);
      expect(await store.conversations.deleteItem(key, 'b')).toMatchObject({ id: 'conv_a' });
      expect(await store.conversations.deleteItem(key, 'b')).toBeNull();
      expect(await store.conversations.deleteItem(key, 'c')).not.toBeNull();
      expect(await idsOf()).toEqual(['a']);
      expect((await store.conversations.count()).sizeBytes).toBe(sizeBytes);
      await store.conversations.add(key, [item('c')]);
      expect(await idsOf()).toEqual(['a', 'c']);
    });

    it('take all items of a call or none', async () => {
      const { conversations } = await harness.open({
        clock: clock.read,
        conversations: { maxItems: 4, maxTextBytes: 5_000, maxBytes: 10_000 },
      });
      await make('conv_a', [item('a')]);
      expect(await conversations.add(key, [item('b'), item('a')])).toBe('taken');
      expect(await conversations.add(key, [item('b'), item('b')])).toBe('taken');
      expect(await conversations.add(key, [item('b'), item('c', 'x'.repeat(5_000))])).toBe('full');
      expect(
        await conversations.add(
          key,
          ['b', 'c', 'd', 'e'].map((id) => item(id)),
        ),
      ).toBe('full');
      const large = { ...scope, id: 'conv_b', metadata: JSON.stringify(noise(20_000)), items: [item('a')] };
      expect(await conversations.create(large)).toBe('full');
      expect(await conversations.create({ ...large, metadata: '{}', items: [item('a'), item('a')] })).toBe('taken');
      expect(await conversations.find({ ...scope, id: 'conv_b' })).toBeNull();
      expect(await idsOf()).toEqual(['a']);
      expect(await conversations.add(key, [item('b'), item('c'), item('d')])).toBe('added');
      // A computed turn is not refused, nor are ids that another turn took first.
      expect(await conversations.append({ conversation: key, items: [item('e', 'x'.repeat(5_000)), item('a')] })).toBe(
        true,
      );
      expect(await idsOf()).toEqual(['a', 'b', 'c', 'd', 'e', expect.stringMatching(/^item_/)]);
    });

    it('keep turns whole and in one piece, however many are added at the same time', async () => {
      await make();
      const handles = [store, await harness.open({ clock: clock.read }), await harness.open({ clock: clock.read })];
      const turns = Array.from({ length: 24 }, (_, turn) =>
        ['in', 'out', 'end'].map((part) => item(`${turn}_${part}`)),
      );
      await Promise.all(
        turns.map(async (items, index) => {
          const at = handles[index % handles.length]!;
          const turn = { conversation: key, items };
          if (index % 2 === 0) expect(await at.conversations.append(turn)).toBe(true);
          else expect(await at.keptAnswers.keep(answer({ id: String(index) }), turn)).toBe('kept');
        }),
      );
      const ids = (await idsOf())!;
      expect(ids).toHaveLength(72);
      for (let at = 0; at < ids.length; at += 3) {
        const turn = ids[at]!.split('_')[0]!;
        expect(ids.slice(at, at + 3)).toEqual([`${turn}_in`, `${turn}_out`, `${turn}_end`]);
      }
    });

    it('get the turn of an answer in the background with its end, and none of one that was cancelled', async () => {
      await make();
      const [here, there] = [store, await harness.open({ clock: clock.read })];
      const begin = async (id: string) => {
        const live = { ...answer({ id }), status: 'in_progress', leaseMs: 30_000 } as const;
        const started = await here.keptAnswers.begin(live);
        if (typeof started === 'string') throw new Error(started);
        return started;
      };
      const [one, two] = [await begin('one'), await begin('two')];
      const done = { status: 'completed', answer: '{}', itemIds: [] } as const;
      await there.keptAnswers.end(two, { ...done, status: 'cancelled' });
      for (const [live, isLive] of [
        [one, true],
        [two, false],
        [one, false],
      ] as const) {
        const turn = { conversation: key, items: [item(live.id)] };
        expect(await here.keptAnswers.update(live, { state: done, turn })).toBe(isLive);
      }
      expect(await idsOf()).toEqual(['one']);
    });

    it('get the turn of an answer that is not kept', async () => {
      await make();
      const turn = { conversation: key, items: [item('a')] };
      expect(await store.keptAnswers.keep(answer({ modelId: 'gone' }), turn)).toBe('model_deleted');
      expect(await idsOf()).toEqual(['a']);
      await store.conversations.delete(key);
      expect(await store.keptAnswers.keep(answer(), turn)).toBe('kept');
      expect(await idsOf()).toBeNull();
    });

    it('get a turn once, however often it is written', async () => {
      await make();
      const { conversations, keptAnswers } = store;
      const turn = { conversation: key, items: [item('in'), item('out')], ownItemId: 'out' };
      for (let time = 0; time < 2; time += 1) expect(await keptAnswers.keep(answer(), turn)).toBe('kept');
      for (let time = 0; time < 2; time += 1) expect(await conversations.append(turn)).toBe(true);
      expect(await idsOf()).toEqual(['in', 'out']);
      const unkept = { conversation: key, items: [item('next')], ownItemId: 'next' };
      expect(await keptAnswers.keep(answer({ id: 'resp_2', modelId: 'gone' }), unkept)).toBe('model_deleted');
      expect(await keptAnswers.keep(answer({ id: 'resp_2', modelId: 'gone' }), unkept)).toBe('full');
      expect(await idsOf()).toEqual(['in', 'out', 'next']);
    });

    it('are written with the answer to their request, or not at all', async () => {
      const { conversations, keptAnswers } = store;
      const turn = (id: string) => ({ conversation: key, items: [item(id)] });
      const live = { ...answer({ id: 'live' }), status: 'queued', leaseMs: 30_000 } as const;
      const writes: Record<string, (completes: IdempotentAnswer) => Promise<unknown>> = {
        create: (completes) => conversations.create({ ...key, metadata: '{}', items: [] }, () => completes),
        add: (completes) => conversations.add(key, [item('added')], completes),
        append: (completes) => conversations.append(turn('appended'), completes),
        keep: (completes) => keptAnswers.keep(answer(), turn('kept'), () => completes),
        begin: (completes) => keptAnswers.begin(live, completes),
      };
      for (const [name, write] of Object.entries(writes)) {
        const before = await idsOf();
        const request = { keyId: 'k', key: name, requestHash: 'h' };
        const completes = { keyId: 'k', key: name, status: 200, body: '{}' };
        await expect(write(completes), name).rejects.toMatchObject({ code: 'store.busy' });
        expect(await idsOf(), name).toEqual(before);
        await store.idempotency.begin(request);
        await write(completes);
        expect(await store.idempotency.begin(request), name).toEqual({ kind: 'completed', status: 200, body: '{}' });
      }
      expect(await idsOf()).toEqual(['added', 'appended', 'kept']);
      expect(await keptAnswers.find(scope, 'live')).not.toBeNull();
    });

    it('that are refused leave the request open', async () => {
      const { conversations, keptAnswers } = store;
      const completes = { keyId: 'k', key: 'once', status: 200, body: '{}' };
      const request = { keyId: 'k', key: 'once', requestHash: 'h' };
      await store.idempotency.begin(request);
      expect(await conversations.add(key, [item('a')], completes)).toBe('unknown');
      await make();
      expect(await conversations.create({ ...key, metadata: '{}', items: [] }, () => completes)).toBe('taken');
      const live = { ...answer({ modelId: 'gone' }), status: 'queued', leaseMs: 30_000 } as const;
      expect(await keptAnswers.begin(live, completes)).toBe('model_deleted');
      expect((await store.idempotency.begin(request)).kind).toBe('in_progress');
    });

    it('expire after their last use when they are purged, and by nothing else', async () => {
      const short = await harness.open({ clock: clock.read, conversations: { lifetimeMs: HOUR_MS } });
      await make('conv_a', [item('a')]);
      const ids = ['unused', 'read', 'changed', 'grown'];
      for (const id of ids) await make(id, [item('a')], short);
      clock.advance(HOUR_MS / 2);
      const of = (id: string) => ({ ...scope, id });
      await short.conversations.readAll(of('read'));
      await short.conversations.setMetadata(of('changed'), '{}');
      await short.conversations.append({ conversation: of('grown'), items: [item('b')] });
      clock.advance(HOUR_MS / 2);
      expect(await idsOf(of('unused'))).toEqual(['a']);
      await store.purgeExpired();
      const known = [];
      for (const id of ids) if ((await store.conversations.find(of(id))) !== null) known.push(id);
      expect(known).toEqual(['read', 'changed', 'grown']);
      clock.advance(DAY_MS);
      await store.purgeExpired();
      expect(await store.conversations.count()).toEqual({ numConversations: 0, sizeBytes: 0 });
    });

    it('live at least as long after a use under a clock that is set back', async () => {
      await make('conv_a', [item('a')]);
      clock.advance(-40 * DAY_MS);
      await store.conversations.setMetadata(key, '{}');
      await store.conversations.append({ conversation: key, items: [item('b')] });
      clock.advance(40 * DAY_MS);
      await store.purgeExpired();
      expect(await idsOf()).toEqual(['a', 'b']);
    });

    it('are counted without living on', async () => {
      await make('conv_a', [item('a')]);
      clock.advance(DAY_MS / 2);
      expect(await store.conversations.readAll(key, { isUse: false })).toHaveLength(1);
      clock.advance(DAY_MS / 2);
      await store.purgeExpired();
      expect(await idsOf()).toBeNull();
    });

    it('of one entity have a total size; those that were not used for longest go first, and those of others stay', async () => {
      const small = await harness.open({ clock: clock.read, conversations: { maxBytes: 100_000 } });
      const theirs = { entityId: (await store.keys.ensureEntity('other')).id, project: '', id: 'theirs' };
      await small.conversations.create({ ...theirs, metadata: '{}', items: [item('a')] });
      const ids = Array.from({ length: 8 }, (_, index) => String(index));
      for (const id of ids) {
        clock.advance(1000);
        await make(id, [item('a', noise(36_000))], small);
        if (id !== '0') await small.conversations.append({ conversation: { ...scope, id: '0' }, items: [item(id)] });
      }
      const known = [];
      for (const id of ids) if ((await store.conversations.find({ ...scope, id })) !== null) known.push(id);
      expect(known.length).toBeGreaterThan(2);
      expect(known).toEqual(['0', ...ids.slice(1 - known.length)]);
      expect(await store.conversations.find(theirs)).not.toBeNull();
      expect((await store.conversations.count()).sizeBytes).toBeLessThan(102_000);
    });
  });
}

import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Page } from '../contract/page.ts';
import type { Store } from '../parts/store.ts';
import { addJob, addModel, claim, type MakeHarness, type StoreHarness, train } from './harness.ts';

interface Listing {
  page: (after: string | null, limit: number) => Promise<Page<{ id: string }>>;
  remove: (id: string) => Promise<void>;
}

export function pagingSuite(makeHarness: MakeHarness): void {
  describe('paging', () => {
    let harness: StoreHarness;
    let store: Store;
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open();
    });
    afterEach(() => harness.destroy());

    it('every surviving checkpoint is listed exactly once, regardless of deletions between the pages', async () => {
      let run = 0;
      const order = fc.constantFrom('asc' as const, 'desc' as const);
      await fc.assert(
        fc.asyncProperty(deletionPlan(), order, async (plan, direction) => {
          const model = await addModel(store, `m${run++}`);
          for (let i = 1; i < plan.numItems; i++) await train(store, model.id, null);
          const all = (await store.checkpoints.list({ modelId: model.id, limit: 1000, order: direction })).items;
          const steps = new Map(all.map((checkpoint) => [checkpoint.id, checkpoint.step]));
          const walk = await readAllPages(all, plan, {
            page: (after, limit) => store.checkpoints.list({ modelId: model.id, after, limit, order: direction }),
            remove: async (id) => {
              await store.checkpoints.delete(model.id, [steps.get(id) ?? -1]);
            },
          });
          expect(walk.seen).toEqual(walk.survivors);
        }),
        { numRuns: 25 },
      );
    });

    it('every surviving model is listed exactly once, regardless of deletions between the pages', async () => {
      let run = 0;
      await fc.assert(
        fc.asyncProperty(deletionPlan(), async (plan) => {
          const project = `p${run++}`;
          for (let i = 0; i < plan.numItems; i++) await addModel(store, `m${i}`, project);
          const walk = await readAllPages((await store.models.list({ project, limit: 1000 })).items, plan, {
            page: (after, limit) => store.models.list({ project, after, limit }),
            remove: async (id) => {
              await store.models.delete(id);
            },
          });
          expect(walk.seen).toEqual(walk.survivors);
        }),
        { numRuns: 15 },
      );
    });

    it('events page in the order they happened, also those that arrive while a client reads', async () => {
      const { id: jobId } = await addJob(store, (await addModel(store)).id);
      const held = await claim(store);
      const append = (index: number) =>
        store.jobs.appendEvent(jobId, held.fencingToken, { type: 'gradient_step', data: { index } });
      for (let i = 0; i < 5; i++) await append(i);
      const first = await store.jobs.listEvents({ jobId, limit: 3 });
      expect(first?.hasMore).toBe(true);
      await append(5);
      await store.jobs.succeed(jobId, held.fencingToken, { directoryKey: null, digest: null, metrics: {} });
      const after = first?.items.at(-1)?.id ?? null;
      const rest = await store.jobs.listEvents({ jobId, limit: 100, after });
      expect(rest?.items.map((event) => event.data['index'] ?? event.type)).toEqual([3, 4, 5, 'training_ended']);
      expect(rest?.hasMore).toBe(false);
      const end = await store.jobs.listEvents({ jobId, after: rest?.items.at(-1)?.id ?? null });
      expect(end).toEqual({ items: [], hasMore: false });
    });

    it('the last page is marked, even if it is full', async () => {
      const model = await addModel(store);
      for (let i = 0; i < 3; i++) await train(store, model.id, null);
      const page = async (limit: number, after: string | null = null) =>
        store.checkpoints.list({ modelId: model.id, limit, after });
      expect([(await page(3)).hasMore, (await page(4)).hasMore, (await page(5)).hasMore]).toEqual([true, false, false]);
      const first = await page(2);
      const second = await page(2, first.items.at(-1)?.id);
      expect(second.items.map((checkpoint) => checkpoint.step)).toEqual([2, 3]);
      expect(second.hasMore).toBe(false);
    });

    it('a cursor of another list, or of nothing, is refused', async () => {
      const [one, two] = [await addModel(store, 'one'), await addModel(store, 'two')];
      const foreign = (await store.checkpoints.latest(two.id))?.id ?? '';
      for (const after of [foreign, 'nonsense', '']) {
        const page = store.checkpoints.list({ modelId: one.id, after });
        await expect(page).rejects.toMatchObject({ code: 'store.cursor_unknown' });
      }
    });

    it('a limit that is not an integer in 1..1000 is a bug of the caller', async () => {
      const model = await addModel(store);
      for (const limit of [0, -1, 1001, 1.5, Number.NaN]) {
        await expect(store.checkpoints.list({ modelId: model.id, limit })).rejects.toThrow('limit');
      }
    });
  });
}

interface DeletionPlan {
  numItems: number;
  limits: number[];
  /** Positions in the original list to delete after each page. */
  deletions: number[][];
}

function deletionPlan(): fc.Arbitrary<DeletionPlan> {
  return fc.integer({ min: 1, max: 12 }).chain((numItems) =>
    fc.record({
      numItems: fc.constant(numItems),
      limits: fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 6 }),
      deletions: fc.array(fc.array(fc.nat(numItems - 1), { maxLength: 4 }), { maxLength: 12 }),
    }),
  );
}

/**
 * Reads all pages as a client does, deleting in between. `survivors`: items not deleted before their page was
 * read.
 */
async function readAllPages(
  all: readonly { id: string }[],
  plan: DeletionPlan,
  listing: Listing,
): Promise<{ seen: string[]; survivors: string[] }> {
  const seen: string[] = [];
  const deletedUnseen = new Set<string>();
  let after: string | null = null;
  for (let round = 0; ; round++) {
    expect(round, 'the cursor must advance').toBeLessThanOrEqual(all.length);
    const page: Page<{ id: string }> = await listing.page(after, plan.limits[round % plan.limits.length] ?? 1);
    seen.push(...page.items.map((item) => item.id));
    if (page.items.length === 0 || !page.hasMore) break;
    after = page.items.at(-1)?.id ?? null;
    for (const position of plan.deletions[round] ?? []) {
      const id = all[position]?.id ?? '';
      if (!seen.includes(id)) deletedUnseen.add(id);
      await listing.remove(id);
    }
  }
  return { seen, survivors: all.map((item) => item.id).filter((id) => !deletedUnseen.has(id)) };
}

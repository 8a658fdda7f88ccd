import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import { addModel, LORA, type MakeHarness, ManualClock, type StoreHarness } from './harness.ts';

const DAY_MS = 24 * 3600 * 1000;

export function idempotencySuite(makeHarness: MakeHarness): void {
  describe('idempotency keys and usage', () => {
    let harness: StoreHarness;
    let store: Store;
    const clock = new ManualClock();
    const request = { keyId: 'key-1', key: 'retry-1', requestHash: 'hash-1' };
    const answer = { keyId: 'key-1', key: 'retry-1', status: 200, body: '{"id":"x"}' };
    beforeEach(async () => {
      harness = await makeHarness();
      store = await harness.open({ clock: clock.read });
    });
    afterEach(() => harness.destroy());

    it('a repeat gets the stored answer, another body is refused, and other callers have their own keys', async () => {
      expect(await store.idempotency.begin(request)).toEqual({ kind: 'started' });
      expect(await store.idempotency.begin(request)).toEqual({ kind: 'in_progress' });
      expect(await store.idempotency.begin({ ...request, requestHash: 'hash-2' })).toEqual({ kind: 'mismatch' });
      await store.idempotency.complete(answer);
      const completed = { kind: 'completed', status: 200, body: '{"id":"x"}' };
      expect(await store.idempotency.begin(request)).toEqual(completed);
      expect(await store.idempotency.begin({ ...request, requestHash: 'hash-2' })).toEqual({ kind: 'mismatch' });
      expect(await store.idempotency.begin({ ...request, keyId: 'key-2' })).toEqual({ kind: 'started' });
      await store.idempotency.complete({ ...answer, status: 500 });
      await store.idempotency.abandon(request);
      expect(await store.idempotency.begin(request)).toEqual(completed);
    });

    it('of many repeats at once, over two handles, one starts', async () => {
      const other = await harness.open({ clock: clock.read });
      const states = await Promise.all(
        Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? store : other).idempotency.begin(request)),
      );
      expect(states.filter((state) => state.kind === 'started')).toHaveLength(1);
      expect(states.filter((state) => state.kind === 'in_progress')).toHaveLength(9);
    });

    it('an abandoned key is free again, also for another body', async () => {
      await store.idempotency.begin(request);
      await store.idempotency.abandon(request);
      expect(await store.idempotency.begin({ ...request, requestHash: 'hash-2' })).toEqual({ kind: 'started' });
    });

    it('records expire after 24 hours, when they are purged: a clock that is ahead repeats no request', async () => {
      await store.idempotency.begin(request);
      await store.idempotency.complete(answer);
      clock.advance(DAY_MS - 1);
      expect((await store.purgeExpired()).numRequests).toBe(0);
      expect((await store.idempotency.begin(request)).kind).toBe('completed');
      clock.advance(40 * DAY_MS);
      expect((await store.idempotency.begin(request)).kind).toBe('completed');
      expect((await store.purgeExpired()).numRequests).toBe(1);
      expect(await store.idempotency.begin(request)).toEqual({ kind: 'started' });
    });

    it('a request started under a clock far ahead is not in progress for as long', async () => {
      const other = await harness.open({ clock: clock.read, instanceId: 'gone' });
      clock.advance(40 * DAY_MS);
      await other.idempotency.begin(request);
      expect((await store.idempotency.begin(request)).kind).toBe('in_progress');
      clock.advance(-40 * DAY_MS);
      expect(await store.idempotency.begin(request)).toEqual({ kind: 'started' });
    });

    it('after a restart requests in progress may run again, completed ones stay', async () => {
      await store.idempotency.begin(request);
      await store.idempotency.begin({ ...request, key: 'retry-2' });
      await store.idempotency.complete(answer);
      expect((await store.recoverAfterRestart()).numRequests).toBe(1);
      expect((await store.idempotency.begin(request)).kind).toBe('completed');
      expect((await store.idempotency.begin({ ...request, key: 'retry-2' })).kind).toBe('started');
    });

    it('the answer is stored with the effect, so that a crash between them cannot double it', async () => {
      const model = await addModel(store);
      await store.idempotency.begin(request);
      const id = crypto.randomUUID();
      const completes = { ...answer, body: JSON.stringify({ id }) };
      await store.jobs.enqueue({ id, modelId: model.id, kind: 'rl', config: {}, dataKey: 'groups/x', completes });
      await store.recoverAfterRestart();
      expect(await store.idempotency.begin(request)).toEqual({ kind: 'completed', status: 200, body: completes.body });
      expect((await store.jobs.get(id))?.id).toBe(id);

      const second = { ...request, key: 'retry-2' };
      await store.idempotency.begin(second);
      const input = { entityId: model.entityId, project: 'demo', name: 'second', baseModel: 'base', lora: LORA };
      await store.models.create({ ...input, completes: { ...answer, key: 'retry-2' } });
      expect((await store.idempotency.begin(second)).kind).toBe('completed');
    });

    it('usage adds up by project, model and kind, within the asked time', async () => {
      const usage = { keyId: 'k', entityId: 'e', project: null, model: 'base', kind: 'chat' as const };
      for (let i = 0; i < 100; i++) void store.usage.record({ ...usage, promptTokens: 10, completionTokens: i });
      void store.usage.record({ ...usage, project: 'p', promptTokens: 1, completionTokens: 2 });
      const totals = await store.usage.sum({ entityId: 'e' });
      expect(totals).toEqual([
        {
          entityId: 'e',
          project: null,
          model: 'base',
          kind: 'chat',
          numRequests: 100,
          promptTokens: 1000,
          completionTokens: 4950,
        },
        {
          entityId: 'e',
          project: 'p',
          model: 'base',
          kind: 'chat',
          numRequests: 1,
          promptTokens: 1,
          completionTokens: 2,
        },
      ]);
      expect(await store.usage.sum({ entityId: 'other' })).toEqual([]);
      expect(await store.usage.sum({ from: clock.read() + 1 })).toEqual([]);
      expect(await store.usage.sum({ from: clock.read(), to: clock.read() + 1 })).toHaveLength(2);
    });

    it('usage is written to disk after a while, and at once by close', async () => {
      const usage = { keyId: 'k', entityId: 'e', project: null, model: 'base', kind: 'chat' as const };
      const other = await harness.open({ clock: clock.read });
      void store.usage.record({ ...usage, promptTokens: 1, completionTokens: 1 });
      await expect.poll(async () => (await other.usage.sum({})).length, { timeout: 100_000, interval: 50 }).toBe(1);
      void store.usage.record({ ...usage, promptTokens: 1, completionTokens: 1 });
      await store.close();
      expect((await other.usage.sum({}))[0]?.numRequests).toBe(2);
    });
  });
}

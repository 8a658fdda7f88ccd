import type { Checkpoint, FeedItem, FeedQuery, Model } from '@trainyard/store';
import { afterEach, expect, test, vi } from 'vitest';

import type { PublishStep } from '../../seams/contract/backends.ts';
import { followSteps } from './follow-steps.ts';

/** A store whose events tests add; the newest step of each model is the last one added. */
class FakeStore {
  readonly items: FeedItem[] = [];
  readonly latest = new Map<string, number>();
  #wakes = new Set<() => void>();

  add(type: string, modelId: string, step = 0): void {
    const position = this.items.length + 1;
    this.items.push({ position, type, modelId, jobId: null, entityId: 'e', data: { step }, createdAt: 0 });
    if (type === 'checkpoint_created') this.latest.set(modelId, step);
  }
  wake(): void {
    for (const wake of this.#wakes) wake();
  }
  readonly feed = {
    lastPosition: async () => this.items.length,
    list: async ({ after = 0, limit = 100 }: FeedQuery) =>
      this.items.filter(({ position }) => position > after).slice(0, limit),
    watch: (wake: () => void) => {
      this.#wakes.add(wake);
      return () => void this.#wakes.delete(wake);
    },
  };
  readonly models = {
    get: async (id: string) => (id === 'deleted' ? null : ({ id, baseModel: `base of ${id}` } as Model)),
  };
  readonly checkpoints = {
    latest: async (id: string) => {
      const step = this.latest.get(id);
      if (step === undefined) return null;
      return { step, digest: `digest of ${id} ${step}`, directoryKey: `checkpoints/${id}-${step}` } as Checkpoint;
    },
  };
}

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

function follow(fake: FakeStore, publish = vi.fn<PublishStep>(async () => null)) {
  const logged: string[] = [];
  const isOwn = (digest: string) => digest.startsWith('digest of own');
  stops.push(followSteps({ store: fake, publish, isOwn, log: (line) => void logged.push(line), pollMs: 1e9 }));
  return { publish, logged };
}
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

test('the newest step of each model is loaded once its row is written, and steps from before the start are not', async () => {
  const fake = new FakeStore();
  fake.add('checkpoint_created', 'old', 1);
  const { publish } = follow(fake);
  await settled();
  fake.add('job_started', 'one');
  fake.add('checkpoint_created', 'one', 1);
  fake.add('checkpoint_created', 'one', 2);
  fake.add('checkpoint_created', 'two', 7);
  fake.add('checkpoint_created', 'deleted', 1);
  fake.add('checkpoint_created', 'own', 1);
  fake.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(2), { timeout: 60_000 });
  const calls = publish.mock.calls.map(([base, step]) => [base, step]);
  expect(calls).toEqual([
    ['base of one', { digest: 'digest of one 2', directoryKey: 'checkpoints/one-2' }],
    ['base of two', { digest: 'digest of two 7', directoryKey: 'checkpoints/two-7' }],
  ]);
  fake.wake();
  await settled();
  expect(publish).toHaveBeenCalledTimes(2);
});

test('more events than one read are all followed', async () => {
  const fake = new FakeStore();
  const { publish } = follow(fake);
  await settled();
  for (let index = 0; index < 450; index++) fake.add('gradient_step', 'one');
  fake.add('checkpoint_created', 'one', 3);
  fake.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(1), { timeout: 60_000 });
});

test('a step that cannot be loaded is logged and left to its first request; later steps are loaded', async () => {
  const fake = new FakeStore();
  const publish = vi.fn<PublishStep>(async (_base, { digest }) => {
    if (digest.endsWith('1')) throw new Error('the rank is too large');
    return null;
  });
  const { logged } = follow(fake, publish);
  await settled();
  fake.add('checkpoint_created', 'one', 1);
  fake.wake();
  await vi.waitFor(() => expect(logged).toHaveLength(1), { timeout: 60_000 });
  expect(logged[0]).toBe('step 1 of model one is loaded at its first request: the rank is too large');
  fake.add('checkpoint_created', 'one', 2);
  fake.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(2), { timeout: 60_000 });
});

test('events that come while a step is loaded are read after it', async () => {
  const fake = new FakeStore();
  const loading = Promise.withResolvers<null>();
  const publish = vi.fn<PublishStep>(() => loading.promise);
  follow(fake, publish);
  await settled();
  fake.add('checkpoint_created', 'one', 1);
  fake.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(1), { timeout: 60_000 });
  fake.add('checkpoint_created', 'two', 1);
  fake.wake();
  loading.resolve(null);
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(2), { timeout: 60_000 });
});

test('stopping does not wait for a loading that hangs', async () => {
  const fake = new FakeStore();
  const publish = vi.fn<PublishStep>(() => new Promise(() => {}));
  follow(fake, publish);
  await settled();
  fake.add('checkpoint_created', 'one', 1);
  fake.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(1), { timeout: 60_000 });
  await stops.pop()!();
});

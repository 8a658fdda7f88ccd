import type { Checkpoint, FeedItem, FeedQuery, Model } from '@trainyard/store';
import { afterEach, expect, test, vi } from 'vitest';

import type { PublishStep } from '../../seams/contract/backends.ts';
import { followSteps } from './follow-steps.ts';

/** A feed whose events tests add; the newest step of each model is the last one added. */
class Feed {
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
  lastFeedPosition = async () => this.items.length;
  listFeed = async ({ after = 0, limit = 100 }: FeedQuery) =>
    this.items.filter(({ position }) => position > after).slice(0, limit);
  watchFeed = (wake: () => void) => {
    this.#wakes.add(wake);
    return () => void this.#wakes.delete(wake);
  };
  getModel = async (id: string) => (id === 'deleted' ? null : ({ id, baseModel: `base of ${id}` } as Model));
  latestCheckpoint = async (id: string) => {
    const step = this.latest.get(id);
    if (step === undefined) return null;
    return { step, digest: `digest of ${id} ${step}`, directoryKey: `checkpoints/${id}-${step}` } as Checkpoint;
  };
}

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

function follow(feed: Feed, publish = vi.fn<PublishStep>(async () => null)) {
  const logged: string[] = [];
  const isOwn = (digest: string) => digest.startsWith('digest of own');
  stops.push(followSteps({ store: feed, publish, isOwn, log: (line) => void logged.push(line), pollMs: 1e9 }));
  return { publish, logged };
}
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

test('the newest step of each model is loaded once its row is written, and steps from before the start are not', async () => {
  const feed = new Feed();
  feed.add('checkpoint_created', 'old', 1);
  const { publish } = follow(feed);
  await settled();
  feed.add('job_started', 'one');
  feed.add('checkpoint_created', 'one', 1);
  feed.add('checkpoint_created', 'one', 2);
  feed.add('checkpoint_created', 'two', 7);
  feed.add('checkpoint_created', 'deleted', 1);
  feed.add('checkpoint_created', 'own', 1);
  feed.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(2), { timeout: 5_000 });
  const calls = publish.mock.calls.map(([base, step]) => [base, step]);
  expect(calls).toEqual([
    ['base of one', { digest: 'digest of one 2', directoryKey: 'checkpoints/one-2' }],
    ['base of two', { digest: 'digest of two 7', directoryKey: 'checkpoints/two-7' }],
  ]);
  feed.wake();
  await settled();
  expect(publish).toHaveBeenCalledTimes(2);
});

test('more events than one read are all followed', async () => {
  const feed = new Feed();
  const { publish } = follow(feed);
  await settled();
  for (let index = 0; index < 450; index++) feed.add('gradient_step', 'one');
  feed.add('checkpoint_created', 'one', 3);
  feed.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(1), { timeout: 5_000 });
});

test('a step that cannot be loaded is logged and left to its first request; later steps are loaded', async () => {
  const feed = new Feed();
  const publish = vi.fn<PublishStep>(async (_base, { digest }) => {
    if (digest.endsWith('1')) throw new Error('the rank is too large');
    return null;
  });
  const { logged } = follow(feed, publish);
  await settled();
  feed.add('checkpoint_created', 'one', 1);
  feed.wake();
  await vi.waitFor(() => expect(logged).toHaveLength(1), { timeout: 5_000 });
  expect(logged[0]).toBe('step 1 of model one is loaded at its first request: the rank is too large');
  feed.add('checkpoint_created', 'one', 2);
  feed.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(2), { timeout: 5_000 });
});

test('events that come while a step is loaded are read after it', async () => {
  const feed = new Feed();
  const loading = Promise.withResolvers<null>();
  const publish = vi.fn<PublishStep>(() => loading.promise);
  follow(feed, publish);
  await settled();
  feed.add('checkpoint_created', 'one', 1);
  feed.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(1), { timeout: 5_000 });
  feed.add('checkpoint_created', 'two', 1);
  feed.wake();
  loading.resolve(null);
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(2), { timeout: 5_000 });
});

test('stopping does not wait for a loading that hangs', async () => {
  const feed = new Feed();
  const publish = vi.fn<PublishStep>(() => new Promise(() => {}));
  follow(feed, publish);
  await settled();
  feed.add('checkpoint_created', 'one', 1);
  feed.wake();
  await vi.waitFor(() => expect(publish).toHaveBeenCalledTimes(1), { timeout: 5_000 });
  await stops.pop()!();
});

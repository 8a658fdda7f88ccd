import type { ResponseEvent } from '@trainyard/protocol';
import { type AnswerEvents, StoreError } from '@trainyard/store';
import { expect, test } from 'vitest';

import { EventBatches } from './event-batches.ts';

const event = (sequence_number: number) => ({ type: 'response.in_progress', sequence_number }) as ResponseEvent;
const numbersOf = ({ events }: AnswerEvents) =>
  events.map((text) => (JSON.parse(text) as ResponseEvent).sequence_number);

const AWAY = new StoreError('store.unavailable', 'away');

/** A store that loses its latest writes when it is away. */
class ForgetfulStore {
  readonly batches = new Map<number, AnswerEvents>();
  isAway = false;

  readonly write = async (batch: AnswerEvents): Promise<void> => {
    if (this.isAway) throw AWAY;
    this.batches.set(batch.firstNumber, batch);
  };

  get numbers(): number[] {
    return [...this.batches.values()].toSorted((a, b) => a.firstNumber - b.firstNumber).flatMap(numbersOf);
  }
}

test.each(['a write fails', 'the outage is reported'])(
  'events that the database lost are written again once %s',
  async (how) => {
    const store = new ForgetfulStore();
    const batches = new EventBatches(store.write, 1);
    const add = async (number: number) => {
      batches.add(event(number));
      await batches.settled();
    };
    await add(1);
    await add(2);
    store.batches.delete(2);
    if (how === 'a write fails') {
      store.isAway = true;
      await add(3);
      store.isAway = false;
    } else batches.doubt(AWAY);
    await add(4);
    expect(store.numbers).toEqual(how === 'a write fails' ? [1, 2, 3, 4] : [1, 2, 4]);
    store.batches.clear();
    await batches.restore();
    expect(store.numbers).toEqual([]);
    batches.doubt(AWAY);
    batches.end(event(5));
    await batches.restore();
    const last = batches.take();
    if (last === null) throw new Error('the last event is to be written');
    await store.write(last);
    expect(store.numbers).toEqual(how === 'a write fails' ? [1, 2, 3, 4, 5] : [1, 2, 4, 5]);
  },
);

test('events whose second write fails stay in doubt', async () => {
  const store = new ForgetfulStore();
  const batches = new EventBatches(store.write, 1);
  batches.add(event(1));
  await batches.settled();
  store.batches.clear();
  store.isAway = true;
  batches.doubt(AWAY);
  await expect(batches.restore()).rejects.toThrow('away');
  store.isAway = false;
  await batches.restore();
  expect(store.numbers).toEqual([1]);
});

test('a store that is busy has lost nothing: nothing is written again', async () => {
  const store = new ForgetfulStore();
  const batches = new EventBatches(store.write, 1);
  batches.add(event(1));
  await batches.settled();
  store.batches.clear();
  batches.doubt(new StoreError('store.busy', 'busy'));
  await batches.restore();
  expect(store.numbers).toEqual([]);
});

test('events that come during a write are written after it, without a further one', async () => {
  const store = new ForgetfulStore();
  const started = Promise.withResolvers<void>();
  const free = Promise.withResolvers<void>();
  const batches = new EventBatches(async (batch) => {
    started.resolve();
    await free.promise;
    await store.write(batch);
  }, 1);
  batches.add(event(1));
  await started.promise;
  batches.add(event(2));
  free.resolve();
  await batches.settled();
  expect(store.numbers).toEqual([1, 2]);
});

test('a write that failed is repeated, until the last event is known', async () => {
  const store = new ForgetfulStore();
  const batches = new EventBatches(store.write, 1);
  store.isAway = true;
  batches.add(event(1));
  await batches.settled();
  store.isAway = false;
  await expect.poll(() => store.numbers).toEqual([1]);
  store.isAway = true;
  batches.add(event(2));
  await batches.settled();
  batches.end(event(3));
  store.isAway = false;
  await new Promise((resolve) => setTimeout(resolve, 1_300));
  expect(store.numbers).toEqual([1]);
  expect(numbersOf(batches.take()!)).toEqual([2, 3]);
});

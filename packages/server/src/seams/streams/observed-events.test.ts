import { expect, test, vi } from 'vitest';

import { ObservedEvents } from './observed-events.ts';

/** A source that reports when it was left or has ended. */
function source(items: readonly number[], onEnd: () => void, failure?: Error): AsyncIterable<number> {
  async function* events() {
    try {
      yield* items;
      if (failure !== undefined) throw failure;
    } finally {
      onEnd();
    }
  }
  return events();
}

function watched(items: readonly number[], failure?: Error) {
  const log: string[] = [];
  const events = new ObservedEvents(
    source(items, () => log.push('source ended'), failure),
    { see: (item) => log.push(`saw ${item}`), onEnd: () => log.push('ended') },
  );
  return { log, events };
}

test('each item is seen before its reader has it, and the end once', async () => {
  const { log, events } = watched([1, 2]);
  for await (const item of events) log.push(`read ${item}`);
  expect(log).toEqual(['saw 1', 'read 1', 'saw 2', 'read 2', 'source ended', 'ended']);
  expect(await events.next()).toEqual({ done: true, value: undefined });
  await events.return();
  expect(log.filter((line) => line === 'ended')).toHaveLength(1);
});

test('a reader that leaves ends the source', async () => {
  const { log, events } = watched([1, 2, 3]);
  for await (const item of events) if (item === 2) break;
  expect(log).toEqual(['saw 1', 'saw 2', 'ended', 'source ended']);
});

test('a failure of the source is its reader’s, and the end', async () => {
  const { log, events } = watched([1], new Error('it broke'));
  await expect(Array.fromAsync(events)).rejects.toThrow('it broke');
  expect(log).toEqual(['saw 1', 'source ended', 'ended']);
});

test('a stream left before its first item has an end, and the source is never started', async () => {
  const begin = vi.fn<() => AsyncIterator<number>>();
  const onEnd = vi.fn<() => void>();
  const events = new ObservedEvents({ [Symbol.asyncIterator]: begin }, { see: () => undefined, onEnd });
  await events.return();
  expect(await events.next()).toEqual({ done: true, value: undefined });
  expect([begin.mock.calls.length, onEnd.mock.calls.length]).toEqual([0, 1]);
});

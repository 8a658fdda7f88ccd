import { expect, test } from 'vitest';
import type { EngineEvent } from '@trainyard/generation';

import { EventStream, HostGeneration, UnreadOutput } from './event-stream.ts';

/** One token with that many alternatives. */
function delta(numTop: number): EngineEvent {
  const entry = { id: 1, text: 'x', bytes: [120], logprob: -1 };
  const top = Array.from({ length: numTop }, () => entry);
  return { kind: 'delta', index: 0, text: 'x', tokenIds: [1], logprobs: [{ ...entry, top }] };
}

function open(unread = new UnreadOutput()) {
  const pauses: boolean[] = [];
  const stream = new EventStream({ unread, setPaused: (isPaused) => pauses.push(isPaused), leave: () => undefined });
  return { stream, pauses, unread };
}

test.each([
  [0, 2_049],
  [20, 187],
])(
  'with %i alternatives a token, a stream pauses after %i unread events and continues when they are read',
  async (numTop, numEvents) => {
    const { stream, pauses } = open();
    for (let i = 1; i < numEvents; i++) stream.push(delta(numTop));
    expect(pauses).toEqual([]);
    stream.push(delta(numTop));
    expect(pauses).toEqual([true]);
    for (let i = 0; i < numEvents - 1; i++) await stream.next();
    expect(pauses).toEqual([true, false]);
  },
);

test('many streams have less room each: the whole stays bounded', () => {
  const unread = new UnreadOutput();
  const streams = Array.from({ length: 2_000 }, () => open(unread));
  expect(unread.limit * streams.length).toBeLessThanOrEqual(1_000_000);
  for (const { stream } of streams) stream.close();
  expect(unread.limit).toBe(4_096);
});

test('events left unread are counted', async () => {
  const { stream } = open();
  const generation = new HostGeneration({ begin: async () => stream, onEnd: () => undefined });
  for (let i = 0; i < 5; i++) stream.push(delta(0));
  await generation.next();
  expect(await generation.return()).toEqual({ done: true, value: 4 });
  expect((await generation.return()).value).toBe(0);
});

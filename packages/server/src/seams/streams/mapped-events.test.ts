import { expect, test } from 'vitest';

import type { CompletedEvent, OpenedGeneration, OutputEvent } from './chat-events.ts';
import { MappedEvents } from './mapped-events.ts';

const delta = (text: string): OutputEvent => ({ kind: 'delta', index: 0, text, tokenIds: [1], logprobs: null });
const COMPLETED: CompletedEvent = {
  kind: 'completed',
  usage: { promptTokens: 1, completionTokens: 2, cachedTokens: 0 },
};

function generationOf(items: readonly (OutputEvent | CompletedEvent)[], failure?: Error) {
  const log: string[] = [];
  async function* source(): AsyncGenerator<OutputEvent | CompletedEvent, void> {
    yield* items;
    if (failure !== undefined) throw failure;
  }
  const generation: OpenedGeneration = {
    started: { kind: 'started', promptTokenIds: [1], cachedTokens: 0 },
    promptText: null,
    scores: null,
    events: source(),
    end: async () => {
      log.push('ended');
      await generation.events.return?.();
    },
  };
  return { log, generation };
}

const tell = (event: OutputEvent | CompletedEvent): string | null =>
  event.kind === 'completed' ? null : event.text === '' ? null : event.text;

test('the first events come first, then those of each output; the generation ends with it', async () => {
  const { log, generation } = generationOf([delta('a'), delta(''), delta('b'), COMPLETED]);
  const told = new MappedEvents(generation, ['first', 'second'], tell);
  expect(await Array.fromAsync(told)).toEqual(['first', 'second', 'a', 'b']);
  expect(log).toEqual(['ended']);
  expect(await told.next()).toEqual({ done: true, value: undefined });
});

test('the end itself may be an event', async () => {
  const { log, generation } = generationOf([delta('a'), COMPLETED]);
  const told = new MappedEvents(generation, [], ({ kind }) => kind);
  expect(await Array.fromAsync(told)).toEqual(['delta', 'completed']);
  expect(log).toEqual(['ended']);
});

test.each([1, 3])('a reader that leaves at item %d ends the generation', async (last) => {
  const { log, generation } = generationOf([delta('a'), delta('b'), COMPLETED]);
  const read: string[] = [];
  for await (const item of new MappedEvents(generation, ['first', 'second'], tell)) {
    read.push(item);
    if (read.length === last) break;
  }
  expect(read).toEqual(['first', 'second', 'a'].slice(0, last));
  expect(log).toEqual(['ended']);
});

test('a failure of the source or of the mapping reaches the reader after the generation has ended', async () => {
  const broken = generationOf([delta('a')], new Error('it broke'));
  await expect(Array.fromAsync(new MappedEvents(broken.generation, [], tell))).rejects.toThrow('it broke');
  expect(broken.log).toEqual(['ended']);
  const untold = generationOf([delta('a'), COMPLETED]);
  const told = new MappedEvents(untold.generation, [], () => {
    throw new Error('it cannot be mapped');
  });
  await expect(Array.fromAsync(told)).rejects.toThrow('it cannot be mapped');
  expect(untold.log).toEqual(['ended']);
  expect(await told.next()).toEqual({ done: true, value: undefined });
});

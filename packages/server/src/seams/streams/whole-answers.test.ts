import type { EngineEvent } from '@trainyard/generation';
import { expect, test } from 'vitest';

import { AnswerMemory } from './answer-memory.ts';
import { openGeneration, type OutputEvent } from './chat-events.ts';
import { SCRIPTED_REQUEST } from '../../testing/scripted-answers.ts';
import { replies, ScriptedInference } from '../../testing/scripted-inference.ts';

const NEVER = new AbortController().signal;

test('of an answer that another engine began again, only its outputs are read, recorded and counted', async () => {
  const inference = new ScriptedInference();
  inference.script = function* (request) {
    const events: EngineEvent[] = [...replies(request, [{ ids: [5, 6], text: 'hi' }])];
    // One choice had ended, and was not recorded.
    yield* events.slice(0, 4);
    yield* events;
  };
  const recorded: OutputEvent[] = [];
  let numBegun = 0;
  const recorder = {
    begin: () => void (numBegun += 1),
    record: async (event: OutputEvent) => {
      recorded.push(event);
      return event;
    },
  };
  const meter = { promptTokens: 0, completionTokens: 0 };
  const request = { ...SCRIPTED_REQUEST, n: 2 };
  const { events } = await openGeneration(inference, request, meter, { signal: NEVER, recorder, isWhole: true });
  const kinds: string[] = [];
  for await (const { kind } of events) kinds.push(kind);
  expect(kinds).toEqual(['delta', 'delta', 'finished', 'finished', 'completed']);
  expect(recorded).toHaveLength(4);
  expect(numBegun).toBe(1);
  expect(meter).toEqual({ promptTokens: 3, completionTokens: 6 });
  expect(inference.lastRequest.isWhole).toBe(true);
});

test('an answer restarted on another engine takes memory only for its kept part', async () => {
  const inference = new ScriptedInference();
  inference.script = function* (request) {
    const events: EngineEvent[] = [...replies(request, [{ ids: [5, 6], text: 'hi' }])];
    yield* events.slice(0, 2);
    yield* events;
  };
  const hold = new AnswerMemory().hold();
  const meter = { promptTokens: 0, completionTokens: 0 };
  const options = { signal: NEVER, newHold: () => hold, isWhole: true };
  const { events } = await openGeneration(inference, SCRIPTED_REQUEST, meter, options);
  for await (const event of events) void event;
  expect(hold.numEntries).toBe(meter.completionTokens);
});

test('a reader that leaves a whole answer pays for its computed tokens', async () => {
  const inference = new ScriptedInference();
  inference.script = function* (request) {
    yield* [...replies(request, [{ ids: [5, 6], text: 'hi' }])].slice(0, 2);
    throw new Error('gone');
  };
  const meter = { promptTokens: 0, completionTokens: 0 };
  const request = SCRIPTED_REQUEST;
  const { events } = await openGeneration(inference, request, meter, { signal: NEVER, isWhole: true });
  await expect(events.next()).rejects.toThrow('gone');
  expect(meter.completionTokens).toBe(2);
});

import type { Response } from '@trainyard/protocol';
import { type AnswerEvents, type LiveAnswer, StoreError } from '@trainyard/store';
import { expect, test } from 'vitest';

import { BackgroundAnswers, type BackgroundAnswersOptions } from './background-answers.ts';

test('a service that stops does not wait long for a database that is away', async () => {
  const logged: string[] = [];
  const keptAnswers = {
    update: () => Promise.reject(new StoreError('store.unavailable', 'away')),
    listOwn: () => Promise.reject(new StoreError('store.unavailable', 'away')),
  };
  const store = {
    keptAnswers,
    database: { numLostConnections: () => 0 },
  } as unknown as BackgroundAnswersOptions['store'];
  const background = new BackgroundAnswers({ store, log: (text) => logged.push(text) });
  const answer: LiveAnswer = { entityId: 'acme', project: '', id: 'resp_1', row: 1 };
  const opening = { id: 'resp_1', status: 'in_progress', output: [] } as unknown as Response;
  background.start({
    answer,
    keyId: 'key',
    opening,
    isStreamed: true,
    turnOf: () => null,
    run: async (_signal, onEvent) => {
      await onEvent({ type: 'response.in_progress', sequence_number: 1, response: opening });
      await onEvent({
        type: 'response.completed',
        sequence_number: 2,
        response: { ...opening, status: 'completed' },
      });
    },
  });
  const startedAt = performance.now();
  await background.close();
  expect(performance.now() - startedAt).toBeLessThan(10_000);
  expect(background.numRunning).toBe(0);
  expect(logged).toEqual([expect.stringContaining('cannot record the end of answer resp_1')]);
});

test('a change of one answer wakes only its own waiters', async () => {
  const store = { keptAnswers: {} } as unknown as BackgroundAnswersOptions['store'];
  const background = new BackgroundAnswers({ store, log: () => undefined });
  const key = (id: string) => ({ entityId: 'acme', project: '', id });
  const woken: string[] = [];
  const waiting = ['b', 'a'].map((id) => background.nextChange(key(id)).then(() => woken.push(id)));
  background.ended(key('a'));
  await waiting[1];
  expect(woken).toEqual(['a']);
  // The other process checks by itself.
  await waiting[0];
  await background.close();
});

test('events are written again after idle connections were lost', async () => {
  let numLost = 0;
  const written: number[] = [];
  const keptAnswers = {
    update: async (_answer: LiveAnswer, { events }: { events?: AnswerEvents }) => {
      if (events !== undefined) written.push(events.firstNumber);
      return true;
    },
  };
  const store = {
    keptAnswers,
    database: { numLostConnections: () => numLost },
  } as unknown as BackgroundAnswersOptions['store'];
  const background = new BackgroundAnswers({ store, log: () => undefined });
  const opening = { id: 'resp_1', status: 'in_progress', output: [] } as unknown as Response;
  background.start({
    answer: { entityId: 'acme', project: '', id: 'resp_1', row: 1 },
    keyId: 'key',
    opening,
    isStreamed: true,
    turnOf: () => null,
    run: async (_signal, onEvent) => {
      await onEvent({ type: 'response.in_progress', sequence_number: 1, response: opening });
      await expect.poll(() => written).toEqual([1]);
      numLost = 1;
      await onEvent({ type: 'response.completed', sequence_number: 2, response: { ...opening, status: 'completed' } });
    },
  });
  await background.close();
  expect(written).toEqual([1, 1, 2]);
});

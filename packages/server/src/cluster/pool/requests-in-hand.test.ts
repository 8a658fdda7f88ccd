import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';

import { RequestsInHand } from './requests-in-hand.ts';

const [lost, left, closed] = ['lost', 'left', 'closed'].map((words) => new Error(words)) as [Error, Error, Error];

test('a request ends with its own signal or with all of them, for the reason of the first', () => {
  const requests = new RequestsInHand();
  const own = new AbortController();
  const [one, other] = [requests.begin(own.signal), requests.begin(new AbortController().signal)];
  own.abort(left);
  expect([one, other].map(({ signal }) => signal.aborted)).toEqual([true, false]);
  requests.abort(lost);
  expect([one, other].map(({ signal }) => signal.reason as Error)).toEqual([left, lost]);
  expect(requests.begin(own.signal).signal.reason).toBe(left);
});

test('requests added after an engine was lost continue; after it was closed they end at once', () => {
  const requests = new RequestsInHand();
  requests.abort(lost);
  const later = requests.begin(new AbortController().signal);
  expect(later.signal.aborted).toBe(false);
  requests.close(closed);
  expect(later.signal.reason).toBe(closed);
  expect(requests.begin(new AbortController().signal).signal.reason).toBe(closed);
});

test('a request that has ended leaves no entry and is not aborted any more', () => {
  const requests = new RequestsInHand();
  const own = new AbortController();
  const request = requests.begin(own.signal);
  request.release();
  requests.abort(lost);
  own.abort(left);
  expect(request.signal.aborted).toBe(false);
  expect(getEventListeners(own.signal, 'abort')).toEqual([]);
});

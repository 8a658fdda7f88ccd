import { getEventListeners } from 'node:events';
import { expect, test } from 'vitest';

import { EitherSignal } from './either-signal.ts';

test('is aborted with the first of two, for its reason, whichever it is and also when it was before', () => {
  for (const which of [0, 1]) {
    const ends = [new AbortController(), new AbortController()] as const;
    const either = new EitherSignal(ends[0].signal, ends[1].signal);
    expect(either.signal.aborted).toBe(false);
    ends[which]!.abort(new Error(`number ${which}`));
    ends[1 - which]!.abort(new Error('later'));
    expect(either.signal.reason).toEqual(new Error(`number ${which}`));
    const late = new EitherSignal(new AbortController().signal, ends[which]!.signal);
    expect(late.signal.reason).toEqual(new Error(`number ${which}`));
  }
});

test('what is released leaves nothing behind, and is aborted no more', () => {
  const life = new AbortController();
  const own = new AbortController();
  const either = new EitherSignal(own.signal, life.signal);
  either.release();
  life.abort();
  expect(either.signal.aborted).toBe(false);
  expect([own, life].flatMap(({ signal }) => getEventListeners(signal, 'abort'))).toEqual([]);
});

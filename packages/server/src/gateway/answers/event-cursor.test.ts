import { expect, test } from 'vitest';

import { eventIdOf, positionOfEvent } from './event-cursor.ts';

test('only its own entity can decode an id, and the id does not reveal its position', () => {
  const ids = [0, 1, 2, Number.MAX_SAFE_INTEGER].map((position) => eventIdOf(position, 'a'));
  expect(ids.map((id) => positionOfEvent(id, 'a'))).toEqual([0, 1, 2, Number.MAX_SAFE_INTEGER]);
  for (const id of ids) expect(id).toMatch(/^[\w-]{22}$/);
  expect(ids.map((id) => positionOfEvent(id, 'b'))).toEqual([null, null, null, null]);
  expect(eventIdOf(1, 'a')).not.toBe(eventIdOf(1, 'b'));
});

test.each(['', '1', '12345678901234567890', 'A'.repeat(22), 'no id'])('%j is no id of an event', (id) => {
  expect(positionOfEvent(id, 'a')).toBeNull();
});

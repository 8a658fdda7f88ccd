import { expect, test } from 'vitest';

import { kindOf, makeMessage, PostgresMessages } from './postgres-messages.ts';

test('messages arrive whole, for any fragmentation by the network', () => {
  const sent = [
    makeMessage('Q', Buffer.from('select 1\0')),
    makeMessage('S', Buffer.alloc(0)),
    makeMessage('Z', Buffer.from('I')),
  ];
  const bytes = Buffer.concat(sent);
  for (let first = 0; first <= bytes.length; first++)
    for (let second = first; second <= bytes.length; second++) {
      const messages = new PostgresMessages();
      const parts = [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)];
      expect(parts.flatMap((part) => messages.take(part))).toEqual(sent);
    }
  expect(sent.map(kindOf)).toEqual(['Q', 'S', 'Z']);
});

import { expect, test } from 'vitest';

import { PendingCodecCalls } from './pending-codec-calls.ts';

/** Starts a call and returns the id it was sent with. */
function start(calls: PendingCodecCalls) {
  let id = '';
  const reply = calls.run((requestId) => {
    id = requestId;
    return true;
  }, 'detokenized');
  return { id, reply };
}

test('each call gets its own reply, in any order', async () => {
  const calls = new PendingCodecCalls();
  const [first, second] = [start(calls), start(calls)];
  calls.settle({ kind: 'detokenized', requestId: second.id, text: 'b' });
  calls.settle({ kind: 'detokenized', requestId: first.id, text: 'a' });
  calls.settle({ kind: 'detokenized', requestId: 'nobody', text: 'c' });
  expect([(await first.reply).text, (await second.reply).text]).toEqual(['a', 'b']);
});

test('a refusal keeps its code and its field', async () => {
  const calls = new PendingCodecCalls();
  const { id, reply } = start(calls);
  calls.settle({ kind: 'codec-failed', requestId: id, code: 'engine.invalid_request', message: 'no', param: 'tokens' });
  await expect(reply).rejects.toMatchObject({ code: 'engine.invalid_request', message: 'no', param: 'tokens' });
});

test('the death or absence of a host rejects every call', async () => {
  const calls = new PendingCodecCalls();
  const replies = [start(calls).reply, start(calls).reply];
  calls.failAll('it is gone');
  for (const reply of replies) await expect(reply).rejects.toMatchObject({ code: 'engine.host_lost' });
  await expect(calls.run(() => false, 'tokenized')).rejects.toMatchObject({ code: 'engine.host_lost' });
});

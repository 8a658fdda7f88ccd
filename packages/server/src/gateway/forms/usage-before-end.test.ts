import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
  await server.addCheckpoint(await server.makeModel('agent'), 'b');
});
afterAll(() => server.close());

const messages = [{ role: 'user', content: 'hi' }];
const FORMS = [
  ['/v1/chat/completions', { messages }],
  ['/v1/chat/completions', { messages, model: 'agent', n: 2 }],
  ['/v1/completions', { prompt: 'hi' }],
  ['/v1/completions', { prompt: ['a', 'b', 'c'] }],
  ['/v1/responses', { input: 'hi' }],
  ['/v1/messages', { messages, max_tokens: 4 }],
  ['/inference/v1/generate', { token_ids: [1], sampling_params: { max_tokens: 4 } }],
] as const;

const cases = FORMS.flatMap(([path, body]) => [false, true].map((stream) => [path, stream, body] as const));

test.each(cases)('usage of %s (stream: %s) is written before the answer ends', async (path, stream, body) => {
  const opened = Promise.withResolvers<void>();
  const write = server.store.usage.record.bind(server.store.usage);
  const held = vi.spyOn(server.store.usage, 'record').mockImplementation(async (usage) => {
    await opened.promise;
    await write(usage);
  });
  try {
    let isAnswered = false;
    const answer = server.request('POST', path, { ...body, stream });
    void answer.then(() => (isAnswered = true));
    await expect.poll(() => held.mock.calls.length, { timeout: 100_000 }).toBe(1);
    // Gives a turn to everything that does not wait for the usage write.
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(isAnswered).toBe(false);
    opened.resolve();
    const { statusCode, body: text } = await answer;
    expect([statusCode, text.length > 0, held.mock.calls.length]).toEqual([200, true, 1]);
  } finally {
    opened.resolve();
    held.mockRestore();
  }
});

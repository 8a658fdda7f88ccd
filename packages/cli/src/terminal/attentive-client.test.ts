import { type AddressInfo, createServer, type Server } from 'node:net';

import { TrainyardConnectionError } from '@trainyard/sdk';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';

import { attentiveClient } from './attentive-client.ts';

afterEach(() => vi.useRealTimers());

/** Accepts connections and stays silent. @returns its URL */
async function silentServer(): Promise<string> {
  const server: Server = createServer((socket) => socket.on('error', () => undefined));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

test("an answer that does not start is reported, and the wait ends at the service's limit", async () => {
  const baseUrl = await silentServer();
  const written = vi.spyOn(process.stderr, 'write').mockImplementation(() => true);
  onTestFinished(() => written.mockRestore());
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const jobs = attentiveClient({ baseUrl, apiKey: 'some-key' }).trainingJobs.list();
  const outcome = jobs.then(
    () => null,
    (error: unknown) => error,
  );
  await vi.advanceTimersByTimeAsync(6_000);
  expect(written.mock.calls).toEqual([[`waiting for a response from ${baseUrl} …\n`]]);
  // It is repeated once.
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await outcome).toEqual(
    new TrainyardConnectionError(baseUrl, new Error('it accepts connections but did not respond within 30 s')),
  );
});

test('an answer that is sampled may take longer', async () => {
  const baseUrl = await silentServer();
  const written = vi.spyOn(process.stderr, 'write').mockImplementation(() => true);
  onTestFinished(() => written.mockRestore());
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let isDone = false;
  const end = new AbortController();
  const answer = attentiveClient({ baseUrl, apiKey: 'some-key' })
    .chat.completions.create(
      { messages: [{ role: 'user', content: 'Hello' }], model: 'some-model' },
      { signal: end.signal },
    )
    .catch(() => (isDone = true));
  await vi.advanceTimersByTimeAsync(300_000);
  expect(isDone).toBe(false);
  end.abort(new Error('the test is over'));
  await answer;
});

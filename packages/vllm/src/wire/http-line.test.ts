import { openSwitchingServer } from '@trainyard/backend/testing';
import { expect, onTestFinished, test } from 'vitest';

import { HttpLine } from './http-line.ts';
import { readServerAddress } from './server-address.ts';

test('a response that switches protocols is a failure', async () => {
  const server = await openSwitchingServer();
  onTestFinished(server.close);
  const address = readServerAddress(server.url)!;
  const line = new HttpLine({ address, apiKey: null, connectMs: 1_000 });
  onTestFinished(() => line.close());
  await expect(line.text('GET', '/health', null, { timeoutMs: 2_000 })).rejects.toMatchObject({ kind: 'lost' });
  const events = line.events('/v1/completions', '{}', new AbortController().signal);
  await expect(events.next()).rejects.toMatchObject({ kind: 'lost' });
});

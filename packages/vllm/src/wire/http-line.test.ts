import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';

import { HttpLine } from './http-line.ts';
import { readServerAddress } from './server-address.ts';

test('what switches protocols in place of an answer is lost', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
    );
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void server.close());
  const address = readServerAddress(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)!;
  const line = new HttpLine({ address, apiKey: null, connectMs: 1_000 });
  onTestFinished(() => line.close());
  await expect(line.text('GET', '/health', null, { timeoutMs: 2_000 })).rejects.toMatchObject({ kind: 'lost' });
  const events = line.events('/v1/completions', '{}', new AbortController().signal);
  await expect(events.next()).rejects.toMatchObject({ kind: 'lost' });
});

import { once } from 'node:events';
import { connect } from 'node:net';

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ErrorBody } from '@trainyard/protocol';

import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
let port: number;
beforeAll(async () => {
  server = await TestServer.start();
  port = Number(new URL(await server.app.listen({ port: 0, host: '127.0.0.1' })).port);
});
afterAll(() => server.close());

/** Sends the bytes and collects the answer until the connection ends. */
async function send(bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let received = '';
  socket.setEncoding('utf8').on('data', (text: string) => (received += text));
  socket.on('error', () => undefined);
  socket.write(bytes);
  await once(socket, 'close');
  return received;
}

test.each([
  [
    'headers of 1 MB',
    `GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(1_000_000)}\r\n\r\n`,
    431,
    'request.headers_too_large',
  ],
  [
    'a path of 100 KB',
    `GET /${'x'.repeat(100_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    431,
    'request.headers_too_large',
  ],
  ['no HTTP', 'hello\r\n\r\n', 400, 'request.malformed'],
  [
    'two lengths',
    'POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    400,
    'request.malformed',
  ],
])('%s: the answer has the shape of every error, and the connection ends', async (_name, bytes, status, code) => {
  const received = await send(bytes);
  const [head = '', body = ''] = received.split('\r\n\r\n');
  expect(head).toContain(`HTTP/1.1 ${status} `);
  expect(head).toContain('Connection: close');
  expect(head).toMatch(/X-Request-Id: [0-9a-f]{32}/);
  const { error, detail } = JSON.parse(body) as ErrorBody;
  expect(error).toMatchObject({ code, param: null });
  expect(detail).toEqual(
    status === 400 ? [{ loc: ['header'], msg: error.message, type: 'value_error' }] : error.message,
  );
});

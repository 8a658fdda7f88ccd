import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';

import { expect, onTestFinished, test } from 'vitest';

import { openSwitchingServer } from '../testing/switching-server.ts';
import { HttpConnections, type HttpConnectionsOptions, readAnswerText } from './http-connections.ts';

class Fault extends Error {
  readonly kind: string;
  constructor(kind: string, message: string) {
    super(message);
    this.kind = kind;
  }
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  return (server.address() as AddressInfo).port;
}

function connectTo(url: string, options: Partial<HttpConnectionsOptions> = {}): HttpConnections {
  const connections = new HttpConnections({
    url,
    name: 'the server',
    connectMs: 5_000,
    idleMs: 1_000,
    maxIdle: 4,
    includesTls: false,
    fail: (kind, message) => new Fault(kind, message),
    ...options,
  });
  onTestFinished(() => connections.close());
  return connections;
}

async function serve(answer: RequestListener, path = ''): Promise<HttpConnections> {
  return connectTo(`http://127.0.0.1:${await listen(createServer(answer))}${path}`);
}

const POST = { method: 'POST', path: '/path', body: '{"é":1}', headers: { 'x-own': 'a' } } as const;
const never = (): AbortSignal => new AbortController().signal;

test('a request has its path below the URL, its headers, and the length of its body in bytes; the connection is kept', async () => {
  const ports = new Set<unknown>();
  const connections = await serve((request, response) => {
    ports.add(request.socket.remotePort);
    const { method, url, headers } = request;
    response.end(JSON.stringify([method, url, headers['x-own'], headers['content-type'], headers['content-length']]));
  }, '/below/');
  const ask = async (body: string | null) =>
    JSON.parse(await readAnswerText(await connections.send({ ...POST, body, signal: never() }), 1_000)) as unknown;
  expect(await ask(POST.body)).toEqual(['POST', '/below/path', 'a', 'application/json', '8']);
  expect(await ask(null)).toEqual(['POST', '/below/path', 'a', null, '0']);
  expect(ports.size).toBe(1);
});

test('any status is an answer, and a larger text than the limit is refused', async () => {
  const connections = await serve((_request, response) => response.writeHead(503).end('x'.repeat(2_000)));
  const answer = await connections.send({ ...POST, signal: never() });
  expect(answer.statusCode).toBe(503);
  await expect(readAnswerText(answer, 1_999)).rejects.toThrow(RangeError);
});

test('a refused connection is an error before the connection; a broken one is not', async () => {
  const closing = createTcpServer((socket) => void socket.once('data', () => socket.resetAndDestroy()));
  const port = await listen(closing);
  const failUnconnected = () => new Fault('unconnected', 'nothing was sent');
  const broken = connectTo(`http://127.0.0.1:${port}`, { failUnconnected });
  await expect(broken.send({ ...POST, signal: never() })).rejects.toMatchObject({ code: 'ECONNRESET' });
  const free = createTcpServer();
  const freePort = await listen(free);
  await new Promise((resolve) => free.close(resolve));
  const refused = connectTo(`http://127.0.0.1:${freePort}`, { failUnconnected });
  await expect(refused.send({ ...POST, signal: never() })).rejects.toMatchObject({ kind: 'unconnected' });
});

test('a handshake without an end is unreachable if it belongs to the connection', async () => {
  const silent = await listen(createTcpServer((socket) => void socket.resume().on('error', () => undefined)));
  const url = `https://127.0.0.1:${silent}`;
  const withTls = connectTo(url, { connectMs: 50, includesTls: true });
  await expect(withTls.send({ ...POST, signal: never() })).rejects.toMatchObject({
    kind: 'unreachable',
    message: 'the server accepted no connection within 50 ms',
  });
  const withoutTls = connectTo(url, { connectMs: 50 });
  const reason = new Error('it waited long enough');
  const ended = new AbortController();
  setTimeout(() => ended.abort(reason), 200);
  await expect(withoutTls.send({ ...POST, signal: ended.signal })).rejects.toMatchObject({ name: 'AbortError' });
});

test('a switch of protocols is a lost request, and an aborted signal sends nothing', async () => {
  const server = await openSwitchingServer();
  onTestFinished(server.close);
  const connections = connectTo(server.url);
  await expect(connections.send({ ...POST, signal: never() })).rejects.toMatchObject({ kind: 'lost' });
  const reason = new Error('no longer needed');
  await expect(connections.send({ ...POST, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
});

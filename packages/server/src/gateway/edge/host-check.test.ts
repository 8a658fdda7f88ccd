import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ErrorBody } from '@trainyard/protocol';

import { createServer } from '../create-server.ts';
import { hostNameOf, isLoopbackName, ownNames } from '../../seams/network/network-names.ts';
import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

const health = async (host: string, allowedHosts: string[] = []) => {
  const { store, blobs, inference, training, transfers } = server;
  const app = createServer({ store, blobs, inference, training, exports: transfers, imports: transfers, allowedHosts });
  const response = await app.inject({ url: '/v1/health', headers: { host } });
  await app.close();
  return response;
};

test('names of this machine are answered, with any port', async () => {
  for (const host of [
    'localhost',
    'LOCALHOST:8420',
    'api.localhost',
    '127.0.0.1:1',
    '127.9.9.9',
    '[::1]:8420',
    'localhost.',
  ])
    expect((await health(host)).statusCode, host).toBe(200);
});

test('every other name is 403 and names the setting, on a public route as well', async () => {
  for (const host of [
    'evil.example',
    'evil.example:8420',
    '10.0.0.1',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'a b',
  ]) {
    const response = await health(host);
    expect(response.statusCode, host).toBe(403);
    const { error } = response.json<ErrorBody>();
    expect(error).toMatchObject({ code: 'request.host_not_allowed', param: 'Host' });
    expect(error.message).toContain('--allowed-hosts');
  }
});

test('several Host headers are 400, with any names', async () => {
  const address = new URL(await server.app.listen({ port: 0, host: '127.0.0.1' }));
  const socket = connect(Number(address.port), '127.0.0.1');
  socket.end('GET /v1/health HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\nConnection: close\r\n\r\n');
  const answer = await text(socket);
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(answer).toContain('"request.malformed"');
});

test('allowed names are answered: as they are, all below one, or all', async () => {
  expect((await health('API.example:443', ['api.example'])).statusCode).toBe(200);
  expect((await health('a.b.example', ['.b.example'])).statusCode).toBe(200);
  expect((await health('b.example', ['.b.example'])).statusCode).toBe(403);
  expect((await health('ab.example', ['b.example'])).statusCode).toBe(403);
  expect((await health('anything.example', ['*'])).statusCode).toBe(200);
});

describe('names', () => {
  test.each(['localhost', '127.0.0.1', '127.1.2.3', '::1', '[::1]', 'x.localhost'])('%s is of this machine', (host) => {
    expect(isLoopbackName(host)).toBe(true);
    expect(ownNames(host)).toEqual([]);
  });

  test.each(['0.0.0.0', '::', '192.168.0.1', 'example.com', 'localhost.example'])('%s is not', (host) => {
    expect(isLoopbackName(host)).toBe(false);
  });

  test('a service that listens everywhere is called by the addresses of the machine', () => {
    expect(ownNames('0.0.0.0')).toContain('127.0.0.1');
    expect(ownNames('192.168.0.1')).toEqual(['192.168.0.1']);
  });

  test.each([
    ['a.example:1', 'a.example'],
    ['[FE80::1]:5', 'fe80::1'],
    ['A.Example.', 'a.example'],
    ['a.example:port', null],
    ['user@a.example', null],
    ['a.example/path', null],
    [undefined, null],
  ])('the name in %j is %j', (authority, name) => {
    expect(hostNameOf(authority)).toBe(name);
  });
});

test('a name that was let in lets in no other', async () => {
  const { store, blobs, inference, training, transfers } = server;
  const parts = { store, blobs, inference, training, exports: transfers, imports: transfers };
  const app = createServer({ ...parts, allowedHosts: ['models.example'] });
  const statuses: number[] = [];
  for (const host of ['localhost', 'evil.example', 'localhost', 'models.example:1', 'models.example.evil', 'localhost'])
    statuses.push((await app.inject({ url: '/v1/health', headers: { host } })).statusCode);
  await app.close();
  expect(statuses).toEqual([200, 403, 200, 200, 403, 200]);
});

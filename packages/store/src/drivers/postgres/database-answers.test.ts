import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

import { afterEach, expect, test } from 'vitest';

import { makeMessage } from '../../testing/postgres-messages.ts';
import { databaseAnswers } from './database-answers.ts';

const READY = makeMessage('Z', Buffer.from('I'));
const WELCOME = Buffer.concat([makeMessage('R', Buffer.alloc(4)), READY]);
const ONE = Buffer.concat([makeMessage('C', Buffer.from('SELECT 1\0')), READY]);
const failed = (code: string) => makeMessage('E', Buffer.from(`SFATAL\0C${code}\0Mno\0\0`));

let server: Server | null = null;
const sockets = new Set<Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  if (server !== null) await new Promise((closed) => server!.close(closed));
  server = null;
});

/** Starts a server that sends these answers, one after each message of a client, then none. */
async function answersOf(...answers: readonly Buffer[]): Promise<boolean> {
  const left = [...answers];
  server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('data', () => socket.write(left.shift() ?? ''));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return await databaseAnswers({ connectionString: `postgres://somebody@127.0.0.1:${port}/there` }, 300);
}

test('a database that answers a statement answers', async () => {
  expect(await answersOf(WELCOME, ONE)).toBe(true);
});

test.each(['53300', '28P01'])('one that refuses the connection (%s) answers too', async (code) => {
  expect(await answersOf(failed(code))).toBe(true);
});

test('a silent server, or one behind an unresponsive pooler, does not', async () => {
  expect(await answersOf()).toBe(false);
  expect(await answersOf(WELCOME)).toBe(false);
});

test('nor does one that shuts down, or has no port', async () => {
  expect(await answersOf(failed('57P03'))).toBe(false);
  expect(await databaseAnswers({ connectionString: 'postgres://somebody@127.0.0.1:1/there' }, 300)).toBe(false);
});

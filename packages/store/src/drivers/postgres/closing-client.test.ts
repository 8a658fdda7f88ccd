import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { FeedListener } from './feed-listener.ts';
import { databaseName, PostgresSql } from './postgres-sql.ts';
import { postgresFindings } from '../../examining/postgres-findings.ts';
import { openRows } from '../../moving/database-rows.ts';

/** `AuthenticationSASL` with an unknown mechanism. */
const UNKNOWN_WAY_IN = Buffer.from([...Buffer.from('R'), 0, 0, 0, 11, 0, 0, 0, 10, ...Buffer.from('X\0\0')]);

let server: Server;
let url: string;
/** Connections open on the server's side. */
let open: Set<Socket>;
let numOpened: number;
beforeEach(async () => {
  open = new Set();
  numOpened = 0;
  server = createServer((socket) => {
    open.add(socket);
    numOpened += 1;
    socket.once('data', () => socket.write(UNKNOWN_WAY_IN));
    socket.on('error', () => undefined).on('close', () => open.delete(socket));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `postgres://somebody@127.0.0.1:${(server.address() as AddressInfo).port}/there`;
});
afterEach(async () => {
  for (const socket of open) socket.destroy();
  await new Promise((closed) => server.close(closed));
});

test.each([
  ['the store', () => PostgresSql.open(url)],
  ['a copy that reads from it', () => openRows({ kind: 'postgres', url }, { isAlone: true })],
])('a connection that fails locally stays open for no process: %s', async (_who, openIt) => {
  await expect(openIt()).rejects.toMatchObject({
    code: 'store.unavailable',
    message: expect.stringMatching(/^database postgres:\/\/127.0.0.1:\d+\/there: cannot connect \(SASL: /),
  });
  await expect.poll(() => open.size).toBe(0);
});

test('nor does one of the doctor', async () => {
  await expect(postgresFindings(url).next()).rejects.toThrow('SASL');
  await expect.poll(() => open.size).toBe(0);
});

test('a certificate that is not there is a fault of the connection, also for a copy', async () => {
  const secured = `${url}?sslmode=verify-full&sslrootcert=/not/there.pem`;
  for (const openIt of [
    () => PostgresSql.open(secured),
    () => openRows({ kind: 'postgres', url: secured }, { isAlone: true }),
  ])
    await expect(openIt()).rejects.toMatchObject({
      code: 'store.unavailable',
      message: expect.stringMatching(/^database postgres:\/\/127.0.0.1:\d+\/there: .*\/not\/there.pem/),
    });
});

test('a listener without its certificate for a while ends nothing, and connects once it exists', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-certificate-'));
  const certificate = join(folder, 'authority.pem');
  const connectionString = `${url}?sslmode=verify-full&sslrootcert=${certificate}`;
  const listener = new FeedListener({ connectionString });
  try {
    listener.add(() => undefined);
    writeFileSync(certificate, '');
    // Closed again after the failure.
    await expect.poll(() => numOpened).toBeGreaterThan(0);
  } finally {
    await listener.close();
    rmSync(folder, { recursive: true });
  }
});

test.each(['postgres://u:12/3@h:1/d', 'postgres://u:12/3@h', 'postgresql://u/p@h/d'])(
  'errors of %s contain no part of the password',
  (address) => {
    expect(() => databaseName(address)).toThrow('the address of the database is not valid');
  },
);

test.each([
  ['postgres://u:p%2F%40%23@h:5432/d%40x', 'postgres://h:5432/d%40x'],
  ['postgres://u:p@ss@h/d?host=/run/a@b', 'postgres://h/d'],
  ['postgres://', 'postgres://'],
])('%s is reported as %s', (address, name) => {
  expect(databaseName(address)).toBe(name);
});

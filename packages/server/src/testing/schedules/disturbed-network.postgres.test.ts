import { mkdtempSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
// Real timer of the machine, also during virtual time.
import { setTimeout as setRealTimeout } from 'node:timers';

import { openStore, type SqlStore } from '@trainyard/store';
import { PostgresCluster, PostgresProxy } from '@trainyard/store/testing';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';

import { CANCEL_REQUEST, DisturbedNetwork } from './disturbed-network.ts';
import type { Faults } from './faults.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { VirtualTime } from './virtual-time.ts';
import { WriterTurns } from './writer-turns.ts';

let cluster: PostgresCluster;
beforeAll(async () => {
  cluster = await PostgresCluster.start(process.env['TRAINYARD_TEST_POSTGRES_PROGRAMS'] ?? '');
});
afterAll(() => cluster.stop());

let directory: string;
let time: VirtualTime;
let networks: DisturbedNetwork[];
let open: (name: string) => Promise<{ process: SimulatedProcess; store: SqlStore }>;
/** Process that stops after the next answer that it gets. */
let stopped: SimulatedProcess | null;
/**
 * Delay of a busy machine until the server reads a message, until its answer is read, and half of the delay
 * until it reports the end of a connection, ms.
 */
let slowness: number;
let machine: PostgresProxy;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'ty-'));
  const url = await cluster.createSchema();
  await (await openStore({ kind: 'postgres', url })).close();
  slowness = 0;
  machine = await PostgresProxy.start([url], { relay: slowly });
  time = new VirtualTime();
  const turns = new WriterTurns();
  networks = [];
  stopped = null;
  const after = (process: SimulatedProcess) => async () => {
    if (process === stopped) process.freeze();
    await process.pass();
  };
  const faults = {
    before: async (process: SimulatedProcess) => {
      await process.pass();
      return after(process);
    },
    ofMessage: () => null,
    ofNotification: () => null,
  } as unknown as Faults;
  open = async (name) => {
    const process = new SimulatedProcess(name, 0);
    const network = await DisturbedNetwork.open({
      database: machine.addressOf(url),
      directory: join(directory, name),
      process,
      faults,
      time,
      turns,
    });
    networks.push(network);
    return { process, store: await process.run(() => openStore({ kind: 'postgres', url: network.database })) };
  };
  time.begin();
});
afterEach(async () => {
  time.end();
  for (const network of networks) await network.close();
  await machine.stop();
  rmSync(directory, { recursive: true, force: true });
});

test.each([
  ['', 0],
  [', however slow the machine is', 100],
])('a client of a stalled process gives up by virtual time, and the server ends that process%s', async (_, ms) => {
  const [one, two] = [await open('one'), await open('two')];
  stopped = one.process;
  const written = one.process.run(() => one.store.keys.ensureEntity('one')).catch((error: unknown) => error);
  // Until its transaction has started.
  while (!one.process.isFrozen) await time.sleep(10);
  slowness = ms;
  const since = time.now;
  const refused = await two.process.run(() => two.store.keys.ensureEntity('two')).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: 'store.busy' });
  expect(time.now - since).toBeGreaterThanOrEqual(5_000);
  expect(time.now - since).toBeLessThan(6_000);
  await time.sleep(2_000);
  expect(await two.process.run(() => two.store.keys.ensureEntity('two'))).toMatchObject({ name: 'two' });
  // It waited for its turn, which came with the end of the other connection.
  expect(time.now - since).toBeGreaterThanOrEqual(10_000);
  expect(time.now - since).toBeLessThan(11_000);
  stopped = null;
  one.process.thaw();
  expect(await written).toMatchObject({ code: 'store.unavailable' });
  expect(await one.process.run(() => one.store.keys.ensureEntity('one'))).toMatchObject({ name: 'one' });
});

test('current work of the server takes hardly any virtual time, even on a slow machine', async () => {
  const { process, store } = await open('one');
  slowness = 1_000;
  const since = time.now;
  expect(await process.run(() => store.keys.list())).toEqual([]);
  expect(time.now - since).toBeLessThan(1_000);
});

/** A cancellation is faster than the message that it cancels. */
function slowly(client: Socket, server: Socket): void {
  const isCancel = (bytes: Buffer) => bytes.length === 16 && bytes.readUInt32BE(4) === CANCEL_REQUEST;
  client.on('data', (bytes: Buffer) => {
    if (isCancel(bytes)) server.write(bytes);
    else setRealTimeout(() => server.write(bytes), slowness);
  });
  server.on('data', (bytes: Buffer) => void setRealTimeout(() => client.write(bytes), slowness));
  server.on('close', () => void setRealTimeout(() => client.destroy(), 2 * slowness));
  client.on('close', () => server.destroy());
}

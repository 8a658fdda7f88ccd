import assert from 'node:assert/strict';

import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';

import type { MemberModel, NewMember } from '../parts/members/members.ts';
import { openPostgresStore } from '../open-postgres-store.ts';
import { addJob, addModel } from '../testing/harness.ts';
import { PostgresCluster } from '../testing/postgres-cluster.ts';
import { PostgresProxy, withoutNotifications } from '../testing/postgres-proxy.ts';
import { queryServer } from '../testing/schema-connection.ts';
import { clusterFindings, type AskEngine, type Finding } from './cluster-findings.ts';

let cluster: PostgresCluster;
let other: PostgresCluster;
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  [cluster, other] = await Promise.all([PostgresCluster.start(programs), PostgresCluster.start(programs)]);
});
afterAll(() => Promise.all([cluster.stop(), other.stop()]));

const NOWHERE = { kind: 'folder', root: '/nowhere' } as const;

async function look(url: string, version = '1.0.0', askEngine?: AskEngine): Promise<Finding[]> {
  const database = { kind: 'postgres', url } as const;
  const parts = { database, blobs: NOWHERE, version, ...(askEngine && { askEngine }) };
  return await Array.fromAsync(clusterFindings(parts));
}

const problemsOf = (findings: readonly Finding[]) =>
  findings.filter(({ problem }) => problem !== null).map(({ name, problem }) => [name, problem]);

async function storeAt(url: string, instanceId: string) {
  const store = await openPostgresStore(url, { instanceId });
  onTestFinished(() => store.close());
  return store;
}

const model = (id: string, fileDigest: string | null = null): MemberModel => ({ id, fileDigest, vocabSize: 10 });
const member = (facts: Partial<NewMember>): NewMember => ({
  role: 'trainer',
  url: null,
  version: '1.0.0',
  baseModels: [],
  capacity: 1,
  adapterDigests: [],
  isDraining: false,
  machineTrouble: null,
  ...facts,
});

test('a database before its first start is well, and is not made one', async () => {
  const url = await cluster.createSchema();
  const findings = await look(url);
  expect(problemsOf(findings)).toEqual([]);
  expect(findings.map(({ name }) => name)).toEqual([
    'database_server',
    'database_connections',
    'database_clock',
    'database_locks',
    'database_notifications',
  ]);
  expect(findings[0]?.subject).toMatch(/^PostgreSQL [\d.]+.*, round trip [\d.]+ ms, no schema yet$/);
  expect((await look(url))[0]?.subject).toContain('no schema yet');
});

test('connections are counted, and a missing reserve for another process is reported', async () => {
  const url = new URL(await cluster.createSchema());
  await queryServer(url.href, 'create role few login connection limit 4; grant create on database postgres to few');
  const connections = async () => (await look(url.href)).find(({ name }) => name === 'database_connections');
  // The server takes a moment to end the connections of the previous test.
  await expect.poll(connections).toMatchObject({
    subject: expect.stringMatching(/^\d+ of \d+ connections are in use, 0 of them Trainyard's$/),
    problem: null,
  });
  url.username = 'few';
  expect(await connections()).toMatchObject({
    subject: expect.stringMatching(/; 2 of 4 for this user$/),
    problem: expect.stringContaining('--database-connections'),
  });
});

test('members are listed one by one, with their parts and the rest of their lease', async () => {
  const url = await cluster.createSchema();
  const trainer = await storeAt(url, 'aaaaaaaa-1111');
  await trainer.members.register(member({ baseModels: [model('base', 'ab'.repeat(32))] }), 30_000);
  const engine = await storeAt(url, 'bbbbbbbb-2222');
  await engine.members.register(member({ role: 'engine', url: 'http://e:1', baseModels: [model('base')] }), 30_000);
  const asked: string[] = [];
  const findings = await look(url, '1.0.0', async (found) => {
    asked.push(found.url);
    return null;
  });
  expect(problemsOf(findings)).toEqual([]);
  const lines = findings.filter(({ name }) => name === 'member').map(({ subject }) => subject);
  expect(lines).toEqual([
    expect.stringMatching(/^engine bbbbbbbb at http:\/\/e:1, release 1\.0\.0, lease expires in (?:30|29) s, base$/),
    expect.stringMatching(/^trainer aaaaaaaa, release 1\.0\.0, lease expires in \d+ s, base \(sha256 abababababab…\)$/),
  ]);
  expect(asked).toEqual(['http://e:1']);
});

test('inconsistencies are named: releases, files of a base model, unreachable engines, jobs without a trainer', async () => {
  const url = await cluster.createSchema();
  const one = await storeAt(url, 'one');
  await one.members.register(member({ baseModels: [model('base', 'aa'), model('only')] }), 30_000);
  const two = await storeAt(url, 'two');
  await two.members.register(
    member({ role: 'engine', url: 'http://e:1', version: '0.9.0', baseModels: [model('base', 'bb')] }),
    30_000,
  );
  const taken = await addModel(one);
  await addJob(one, taken.id);
  const { id: entityId } = await one.keys.ensureEntity('local');
  const lora = { rank: 1, alpha: 1, targets: [], initSeed: 0 };
  const made = await one.models.create({ entityId, project: 'p', name: 'n', baseModel: 'elsewhere', lora });
  assert(made.kind === 'created');
  await addJob(one, made.model.id);
  const paused = await addJob(one, made.model.id);
  await one.jobs.pause(paused.id);
  const findings = await look(url, '1.0.0', async () => 'it refuses the secret');
  expect(problemsOf(findings)).toEqual([
    ['members_versions', expect.stringContaining('several releases are running: 0.9.0, 1.0.0 (this program: 1.0.0)')],
    ['members_models', expect.stringContaining('the model file of base differs between processes')],
    ['member_reached', 'it refuses the secret'],
    [
      'waiting_jobs',
      expect.stringMatching(/no trainer has their base model \(1 for elsewhere, oldest waiting \d+ s\)/),
    ],
  ]);
});

test('clocks a minute apart are reported', async () => {
  const url = await cluster.createSchema();
  const now = Date.now();
  const wrong = vi.spyOn(Date, 'now').mockImplementation(() => now - 65_000);
  const findings = await look(url).finally(() => wrong.mockRestore());
  const clock = findings.find(({ name }) => name === 'database_clock');
  expect(clock).toMatchObject({
    subject: expect.stringMatching(/6[56]\.\d s behind the database's/),
    problem: expect.stringContaining('NTP'),
  });
});

test('a pooler that shares connections by transaction is found out by its silence', async () => {
  const url = await cluster.createSchema();
  const proxy = await PostgresProxy.start([url], { relay: withoutNotifications });
  onTestFinished(() => proxy.stop());
  expect(problemsOf(await look(proxy.addressOf(url)))).toEqual([
    ['database_notifications', expect.stringContaining('pooler in session mode')],
  ]);
});

test('an address that leads to several servers is found out by its locks', async () => {
  const proxy = await PostgresProxy.start([cluster.url, other.url]);
  onTestFinished(() => proxy.stop());
  const problems = problemsOf(await look(proxy.addressOf(cluster.url)));
  expect(problems).toContainEqual(['database_locks', expect.stringContaining('the address of one primary')]);
});

test('a database that goes away in the middle is one finding, and the blobs are looked at all the same', async () => {
  const url = await other.createSchema();
  const findings: Finding[] = [];
  for await (const finding of clusterFindings({ database: { kind: 'postgres', url }, blobs: NOWHERE, version: '1' })) {
    findings.push(finding);
    if (findings.length === 1) await other.disconnectAll();
  }
  expect(findings[1]).toMatchObject({ name: 'database_lost', problem: expect.stringMatching(/\w/) });
});

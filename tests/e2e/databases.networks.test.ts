/**
 * One service whose processes connect to their database in three ways, with clocks a minute apart: through a
 * pooler that shares connections by transaction, unencrypted, and over TLS. Also the messages without a
 * connection.
 */
import { execFile, execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

import { examineDatabase } from '@trainyard/store';
import { queryServer } from '@trainyard/store/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { eventTypes } from '../support/event-types.ts';
import { tenLongGroups, WITH_LOGPROBS } from '../support/groups.ts';
import { DatabaseMachine, PASSWORD } from '../support/network/database-machine.ts';
import { type Machine, Network } from '../support/network/network.ts';
import { BASE, type NetworkPart, NetworkParts } from '../support/network/network-parts.ts';

const MAIN = resolve(import.meta.dirname, '../../packages/cli/src/main.ts');
/** Node's timers use the monotonic clock, which cannot be set. */
const ENVIRONMENT = { PGPASSWORD: PASSWORD, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
const MINUTE_AHEAD = clock('+60s');
const MINUTE_BEHIND = clock('-60s');

/**
 * Environment of a process with such a clock error. Under `faketime` itself it would be a child that signals
 * do not reach.
 */
function clock(shift: string): Record<string, string> {
  const seen = execFileSync('faketime', ['-f', shift, 'env'], { encoding: 'utf8' });
  const value = (name: string) => new RegExp(`^${name}=(.+)$`, 'm').exec(seen)![1]!;
  return { FAKETIME: value('FAKETIME'), LD_PRELOAD: value('LD_PRELOAD') };
}

let network: Network;
let database: DatabaseMachine;
let url: string;
let pooled: string;
let secure: string;
let parts: NetworkParts;
let ahead: NetworkPart;
let right: NetworkPart;
let behind: NetworkPart;
let operator: Machine;

beforeAll(async () => {
  network = new Network();
  const machine = (name: string) => network.machine(name);
  database = await DatabaseMachine.start(await machine('database'));
  operator = await machine('operator');
  url = await database.createDatabase();
  pooled = await database.pooled(url);
  secure = `${url}?sslmode=verify-full&sslrootcert=${database.authority}`;
  parts = new NetworkParts(ENVIRONMENT);
  const through = (address: string, otherClock = {}) => ({
    environment: { TRAINYARD_DATABASE: address, ...otherClock },
  });
  await parts.start(await machine('engine'), 'engine', through(pooled));
  ahead = await parts.start(await machine('ahead'), 'api', through(pooled, MINUTE_AHEAD));
  behind = await parts.start(await machine('behind'), 'trainer', through(secure, MINUTE_BEHIND));
  right = await parts.start(await machine('right'), 'api', through(url));
}, 300_000);
afterAll(async () => {
  await parts?.close();
  await database?.stop();
  network?.close();
});

interface Finding {
  readonly name: string;
  readonly subject: string;
  readonly problem: string | null;
}

/** Findings of `trainyard doctor` on the operator's machine, by name. */
async function doctor(address: string, otherClock: Record<string, string>): Promise<Map<string, Finding>> {
  const words = [process.execPath, '--conditions=@trainyard/source', MAIN, 'doctor', '--role', 'trainer', '--json'];
  const [program, ...args] = operator.command();
  const { stdout, stderr } = await promisify(execFile)(program, [...args, ...words], {
    env: { ...process.env, ...ENVIRONMENT, ...otherClock, TRAINYARD_DATABASE: address },
  }).catch((error: { stdout: string; stderr: string }) => error);
  expect(stdout + stderr).not.toContain(PASSWORD);
  const { checks } = JSON.parse(stdout) as { checks: Finding[] };
  return new Map(checks.map((check) => [check.name, check]));
}

/** Reason why this process cannot connect, as reported at a start; null if it can. */
async function problemOf(address: string, password: string = PASSWORD): Promise<string | null> {
  const named = new URL(address);
  named.password = password;
  const { problem } = await examineDatabase({ kind: 'postgres', url: named.href });
  expect(problem ?? '').not.toContain(PASSWORD);
  return problem;
}

const longJob = async (gateway: NetworkPart, name: string, numSteps: number) => {
  const model = await gateway.client.models.register({ project: 'ways', name, base_model: BASE });
  const groups = await tenLongGroups(ahead.client, BASE, WITH_LOGPROBS);
  return await gateway.client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: groups,
    experimental_config: { learning_rate: 1e-4, gradient_steps: numSteps },
  });
};

test('they are one service: a job created in one runs in another and is reported by a third, in the order and at the times of the database', async () => {
  const begun = Date.now();
  const job = await longJob(ahead, 'shared', 2);
  expect(await right.client.trainingJobs.gradientSteps(job.id)).toHaveLength(2);
  const events = (await ahead.client.trainingJobs.events(job.id)).data;
  expect(eventTypes(events)).toEqual(['training_started', 'gradient_step', 'gradient_step', 'training_ended']);
  const rows = await queryServer<{ at: number }>(
    database.nearby(url),
    `select created_at as at from job_events where job_id = '${job.id}' order by seq`,
  );
  const times = rows.map(({ at }) => at);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
  expect(times[0]).toBeGreaterThan(begun - 1_000);
  expect(times.at(-1)).toBeLessThan(Date.now() + 1_000);
  // A request to one process is not repeated by the other.
  const body = { project: 'ways', name: 'once', base_model: BASE };
  const answers = await Promise.all(
    [ahead, right, ahead, right].map(async (part) => {
      for (;;) {
        const answer = await part.ask('/preview/models', body, { 'idempotency-key': 'once' });
        if (answer.status !== 409) return ((await answer.json()) as { id: string }).id;
        await sleep(100);
      }
    }),
  );
  expect(new Set(answers).size).toBe(1);
});

test('a cancel through either process reaches the trainer, and the next job runs', async () => {
  for (const [index, gateway] of [ahead, right].entries()) {
    const job = await longJob(gateway, `cancelled-${index}`, 10);
    for await (const event of right.client.trainingJobs.watch(job.id)) if (event.type === 'gradient_step') break;
    await gateway.client.trainingJobs.cancel(job.id);
    expect((await right.client.trainingJobs.retrieve(job.id)).status).toBe('cancelled');
  }
  const job = await longJob(right, 'next', 1);
  expect(await ahead.client.trainingJobs.gradientSteps(job.id)).toHaveLength(1);
});

test('TLS is used on request, and an unverified server is reported', async () => {
  const near = database.nearby(url);
  const secured = await queryServer<{ address: string; ssl: boolean }>(
    near,
    `select distinct host(client_addr) as address, ssl from pg_stat_ssl join pg_stat_activity using (pid)
     where application_name = 'trainyard' and client_addr is not null`,
  );
  expect(secured).toContainEqual({ address: behind.machine.address, ssl: true });
  expect(secured).not.toContainEqual({ address: behind.machine.address, ssl: false });
  expect(await problemOf(secure)).toBeNull();
  // An address missing in the certificate.
  const other = '198.18.0.200';
  database.machine.run(['ip', 'address', 'add', `${other}/24`, 'dev', 'eth0']);
  const refusals: [address: string, password: string, words: string][] = [
    [`${url}?sslmode=verify-full`, PASSWORD, 'sslrootcert=PATH'],
    [`${url}?sslmode=require`, PASSWORD, 'sslrootcert=PATH'],
    [secure.replace(database.machine.address, other), PASSWORD, 'does not match certificate'],
    [url, 'not-this-one', 'the server refuses this user'],
    [url, '', 'set PGPASSWORD'],
  ];
  for (const [address, password, words] of refusals) expect(await problemOf(address, password)).toContain(words);
});

test('the doctor reports the pooler, the clock and exhausted connections; requests get a time to wait', async () => {
  const found = await doctor(pooled, MINUTE_AHEAD);
  expect(found.get('database_notifications')?.problem).toContain('a pooler in transaction mode');
  expect(found.get('database_clock')?.problem).toContain('NTP');
  expect(found.get('database_locks')?.problem).toBeNull();

  await database.limitConnections(3);
  await database.cluster.disconnectAll();
  const register = async (index: number) =>
    await right.ask(
      '/preview/models',
      { project: 'ways', name: `few-${index}`, base_model: BASE },
      { 'idempotency-key': `few-${index}` },
    );
  const answers = await Promise.all(Array.from({ length: 40 }, (_, index) => register(index)));
  const refused = answers.filter(({ status }) => status !== 200);
  for (const answer of refused) {
    expect(answer.status).toBe(503);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await answer.text()).toMatch(/store\.(unavailable|busy)/);
  }
  console.log(`with 3 connections for all: ${refused.length} of 40 writes at once got a time to wait`);
  expect(await problemOf(url)).toContain('too many connections');
  await database.limitConnections(-1);
  await expect.poll(async () => (await register(0)).status).toBe(200);
  // The pooler waits a quarter of a minute before it retries (`server_login_retry`).
  await expect.poll(async () => (await ahead.ask('/models')).status).toBe(200);
  for (const index of Array.from({ length: 40 }).keys()) expect((await register(index)).status).toBe(200);
  const job = await longJob(right, 'after', 1);
  expect(await ahead.client.trainingJobs.gradientSteps(job.id)).toHaveLength(1);
}, 200_000);

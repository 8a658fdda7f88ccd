/**
 * Engines that only listen on 127.0.0.1, with proxies that end TLS: a plain one that passes on bytes, and
 * nginx as in the guide. Requests of an `api` cross the network encrypted, and everything works as without a
 * proxy.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { resolve } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { Authority } from '../support/network/authority.ts';
import { DatabaseMachine, PASSWORD } from '../support/network/database-machine.ts';
import { type Machine, Network } from '../support/network/network.ts';
import { BASE, type NetworkPart, NetworkParts, SECRET } from '../support/network/network-parts.ts';
import { openedStream } from '../support/network/opened-stream.ts';
import { type Proxy, startNginx, startTlsProxy } from '../support/network/proxies.ts';

const MAIN = resolve(import.meta.dirname, '../../packages/cli/src/main.ts');
const ENGINE_PORT = 8420;
const TLS_PORT = 8443;

let network: Network;
let authority: Authority;
let database: DatabaseMachine;
let url: string;
let parts: NetworkParts;
let api: NetworkPart;
const machines = new Map<string, Machine>();
const engines = new Map<string, NetworkPart>();
const proxies = new Map<string, Proxy>();

const machineOf = (name: string): Machine => machines.get(name)!;
const urlOf = (name: string): string => `https://${machineOf(name).address}:${TLS_PORT}`;
const startEngine = async (name: string): Promise<void> =>
  void engines.set(
    name,
    await parts.start(machineOf(name), 'engine', {
      loopbackPort: ENGINE_PORT,
      environment: { TRAINYARD_ENGINE_URL: urlOf(name) },
    }),
  );
const startProxy = async (name: string, of: string = name): Promise<void> => {
  const certificate = authority.issue(`${name}-${of}`, machineOf(of).address);
  const proxy =
    name === 'bytes'
      ? startTlsProxy(machineOf(name), TLS_PORT, certificate, ENGINE_PORT)
      : startNginx(machineOf(name), 'engine', certificate);
  proxies.set(name, await proxy);
};

beforeAll(async () => {
  network = new Network();
  for (const name of ['database', 'bytes', 'nginx', 'api', 'stranger']) machines.set(name, await network.machine(name));
  authority = new Authority();
  database = await DatabaseMachine.start(machineOf('database'));
  url = await database.createDatabase();
  parts = new NetworkParts({ TRAINYARD_DATABASE: url, PGPASSWORD: PASSWORD });
  for (const name of ['bytes', 'nginx']) {
    await startProxy(name);
    await startEngine(name);
  }
  api = await parts.start(machineOf('api'), 'api', { environment: { NODE_EXTRA_CA_CERTS: authority.certificate } });
}, 300_000);
afterAll(async () => {
  await parts?.close();
  for (const proxy of proxies.values()) await proxy.stop();
  await database?.stop();
  authority?.remove();
  network?.close();
});

const chat = (index: number | string, more: object = {}) => ({
  model: BASE,
  messages: [{ role: 'user', content: `Tell a story about ${index}.` }],
  max_tokens: 8,
  ignore_eos: true,
  ...more,
});

interface EngineMember {
  readonly url: string;
  readonly state: string;
  readonly trouble: string | null;
  readonly num_requests: number;
}
/** The engines that a process has, by machine. */
async function engineMembers(of: NetworkPart): Promise<Map<string, EngineMember>> {
  const { sampling } = (await (await of.ask('/preview/hosts')).json()) as {
    sampling: { hosts: { members?: EngineMember[] }[] };
  };
  const members = sampling.hosts.flatMap((host) => host.members ?? []);
  return new Map(
    ['bytes', 'nginx'].map((name) => [name, members.find((member) => member.url === urlOf(name))!] as const),
  );
}
const states = async (of: NetworkPart): Promise<string[]> =>
  [...(await engineMembers(of)).values()].map(({ state }) => state);
async function numRequests(): Promise<number> {
  const { sampling } = (await (await api.ask('/preview/hosts')).json()) as {
    sampling: { hosts: { num_requests: number }[] };
  };
  return sampling.hosts[0]!.num_requests;
}
/** Chats with different prefixes, so that both engines get some of them. */
async function chats(count: number, about: string): Promise<number[]> {
  const answers = await Promise.all(
    Array.from({ length: count }, (_, index) => api.ask('/chat/completions', chat(`${about} ${index}`))),
  );
  await Promise.all(answers.map((answer) => answer.arrayBuffer()));
  return answers.map(({ status }) => status);
}
const all = (count: number, status = 200): number[] => Array.from({ length: count }, () => status);

test('through either proxy a seed gives the same tokens, streams arrive as generated, and the engine cannot be reached directly', async () => {
  expect(await states(api)).toEqual(['up', 'up']);
  const distinct = new Set<string>();
  for (const name of ['bytes', 'nginx']) {
    // The other is unreachable meanwhile, so that this one gets it.
    const other = name === 'bytes' ? 'nginx' : 'bytes';
    network.cut(api.machine, machineOf(other));
    await expect.poll(async () => (await engineMembers(api)).get(other)!.state).toBe('down');
    const body = chat('the same', { seed: 7, max_tokens: 64, temperature: 0.9, logprobs: true });
    const answer = await api.ask('/chat/completions', body);
    expect(answer.status).toBe(200);
    const { choices } = (await answer.json()) as { choices: object[] };
    distinct.add(JSON.stringify(choices));
    const stream = await openedStream(api, chat('streams', { max_tokens: 300 }));
    const end = await stream.end;
    expect(end).toMatchObject({ isDone: true, error: null, broken: null, numTokens: 300 });
    expect(end.numChunks).toBeGreaterThan(50);
    // Its first tokens arrive long before its last: a proxy that buffers a few kilobytes would deliver all at
    // once.
    const shareBehindFirst = async (): Promise<number> => {
      const begun = performance.now();
      const short = await openedStream(api, chat('tokens', { max_tokens: 24 }));
      const first = performance.now();
      await short.end;
      return (performance.now() - first) / (performance.now() - begun);
    };
    await expect.poll(shareBehindFirst).toBeGreaterThan(0.5);
    // Leaving ends the request at the engine, and its proxy must disconnect, too.
    const left = await openedStream(api, chat('leaving', { max_tokens: 4_000 }));
    await expect.poll(numRequests).toBe(1);
    left.leave();
    await expect.poll(numRequests).toBe(0);
    // Larger than nginx's default limit.
    const long = await api.ask('/tokenize', { model: BASE, prompt: 'word '.repeat(300_000) });
    expect(long.status).toBe(200);
    expect(((await long.json()) as { count: number }).count).toBeGreaterThan(300_000);
    network.heal();
    await expect.poll(() => states(api)).toEqual(['up', 'up']);
  }
  expect(distinct.size).toBe(1);

  for (const name of ['bytes', 'nginx']) {
    const socket = connect(ENGINE_PORT, machineOf(name).address);
    const [refused] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
    expect(refused.code).toBe('ECONNREFUSED');
  }
}, 200_000);

test('a process that does not trust the authority reports it, answers 503, and works once it does', async () => {
  const stranger = await parts.start(machineOf('stranger'), 'api');
  const refused = await stranger.ask('/chat/completions', chat('nobody'));
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
  expect(await refused.text()).not.toContain(machineOf('bytes').address);
  for (const name of ['bytes', 'nginx'])
    expect(stranger.says(`${urlOf(name)} cannot be reached (UNABLE_TO_VERIFY_LEAF_SIGNATURE`)).toBe(true);
  expect(stranger.says('NODE_EXTRA_CA_CERTS=FILE')).toBe(true);
  await stranger.end('SIGTERM');
  const again = await parts.start(machineOf('stranger'), 'api', {
    environment: { NODE_EXTRA_CA_CERTS: authority.certificate },
  });
  expect(await states(again)).toEqual(['up', 'up']);
  expect((await again.ask('/chat/completions', chat('somebody'))).status).toBe(200);
  await again.end('SIGTERM');
}, 100_000);

test('the doctor checks through the proxy, and reports the fault of a certificate', async () => {
  const doctor = async (environment: Record<string, string>) => {
    const [program, ...args] = machineOf('stranger').command();
    const words = [process.execPath, '--conditions=@trainyard/source', MAIN, 'doctor', '--role', 'trainer', '--json'];
    const { stdout } = await promisify(execFile)(program, [...args, ...words], {
      env: {
        ...process.env,
        TRAINYARD_DATABASE: url,
        PGPASSWORD: PASSWORD,
        TRAINYARD_ENGINE_SECRET: SECRET,
        ...environment,
      },
    }).catch((error: { stdout: string }) => error);
    const { checks } = JSON.parse(stdout) as {
      checks: { name: string; subject: string; problem: string | null }[];
    };
    return checks.filter(({ name, subject }) => name === 'member_reached' && subject.includes('https://'));
  };
  const known = await doctor({ NODE_EXTRA_CA_CERTS: authority.certificate });
  expect(known.map(({ problem }) => problem)).toEqual([null, null]);
  for (const { problem } of await doctor({})) expect(problem).toContain('NODE_EXTRA_CA_CERTS');
}, 100_000);

test('a certificate for another machine gets no request', async () => {
  await proxies.get('bytes')!.stop();
  await startProxy('bytes', 'nginx');
  await expect
    .poll(async () => (await engineMembers(api)).get('bytes')!.trouble)
    .toContain('ERR_TLS_CERT_ALTNAME_INVALID');
  expect(await chats(8, 'another name')).toEqual(all(8));
  await proxies.get('bytes')!.stop();
  await startProxy('bytes');
  await expect.poll(() => states(api)).toEqual(['up', 'up']);
}, 100_000);

test('a proxy that ends no handshake delays a request by seconds only', async () => {
  // One connection stays open, on which the engine answers checks normally.
  expect(await chats(1, 'before')).toEqual(all(1));
  process.kill(proxies.get('bytes')!.pid, 'SIGUSR1');
  const begun = performance.now();
  expect(await chats(24, 'no handshake')).toEqual(all(24));
  expect(api.says(`${urlOf('bytes')} accepted no connection within 3000 ms`)).toBe(true);
  console.log(`24 chats without handshakes: ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  process.kill(proxies.get('bytes')!.pid, 'SIGUSR2');
  await expect.poll(() => states(api)).toEqual(['up', 'up']);
}, 100_000);

test.each(['bytes', 'nginx'])(
  'an engine killed behind %s ends its streams with one error; requests go to the other, and to it once it is back',
  async (name) => {
    const streams = await Promise.all(
      Array.from({ length: 8 }, (_, index) => openedStream(api, chat(`${name} ${index}`, { max_tokens: 4_000 }))),
    );
    await expect.poll(numRequests).toBe(8);
    await engines.get(name)!.end('SIGKILL');
    expect(await chats(8, `killed ${name}`)).toEqual(all(8));
    const ends = streams.map(({ end }) => end);
    const first = await Promise.race(ends);
    expect(first).toMatchObject({ numErrors: 1, error: { code: 'engine.host_lost' } });
    for (const { leave } of streams) leave();
    for (const { error, numErrors } of await Promise.all(ends)) {
      expect(numErrors).toBeLessThan(2);
      if (error !== null) expect(error.code).toBe('engine.host_lost');
    }
    await startEngine(name);
    await expect.poll(() => states(api)).toEqual(['up', 'up']);
    expect(await chats(8, `again ${name}`)).toEqual(all(8));
  },
  200_000,
);

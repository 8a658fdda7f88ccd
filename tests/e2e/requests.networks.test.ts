/**
 * Requests while machines die, and while the network drops packets: each is answered once, in a bounded time,
 * and requests that do not need the lost part succeed.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { DatabaseMachine, PASSWORD } from '../support/network/database-machine.ts';
import { type Machine, Network } from '../support/network/network.ts';
import { BASE, type NetworkPart, NetworkParts } from '../support/network/network-parts.ts';
import { openedStream } from '../support/network/opened-stream.ts';

let network: Network;
let database: DatabaseMachine;
let parts: NetworkParts;
let apis: [NetworkPart, NetworkPart];
let engines: [NetworkPart, NetworkPart];
const machines = new Map<string, Machine>();

beforeAll(async () => {
  network = new Network();
  for (const name of ['database', 'api one', 'api two', 'engine one', 'engine two'])
    machines.set(name, await network.machine(name));
  database = await DatabaseMachine.start(machines.get('database')!);
  parts = new NetworkParts({ TRAINYARD_DATABASE: await database.createDatabase(), PGPASSWORD: PASSWORD });
  const first = await parts.start(machines.get('engine one')!, 'engine');
  engines = [first, await parts.start(machines.get('engine two')!, 'engine')];
  // They look for engines before they are ready.
  const [one, two] = await Promise.all(['api one', 'api two'].map((name) => parts.start(machines.get(name)!, 'api')));
  apis = [one!, two!];
}, 300_000);
afterAll(async () => {
  await parts?.close();
  await database?.stop();
  network?.close();
});

const chat = { model: BASE, messages: [{ role: 'user', content: 'Count.' }], max_tokens: 8, ignore_eos: true };
/** Duration in seconds. */
async function timed<Result>(work: Promise<Result>): Promise<[Result, number]> {
  const begun = performance.now();
  return [await work, (performance.now() - begun) / 1000];
}
async function numRequests(api: NetworkPart): Promise<number> {
  const { sampling } = (await (await api.ask('/preview/hosts')).json()) as {
    sampling: { hosts: { num_requests: number }[] };
  };
  return sampling.hosts[0]!.num_requests;
}
async function completionTokens(api: NetworkPart): Promise<number> {
  const { data } = await api.client.usage.read({ by: ['model'] });
  return data.find(({ model }) => model === BASE)?.completion_tokens ?? 0;
}

test('when an api is killed in mid-stream the client sees the end, the other answers at once, and the engine frees the request', async () => {
  const [one, two] = apis;
  const before = await completionTokens(two);
  const stream = await openedStream(one, { ...chat, max_tokens: 4_000 });
  await expect.poll(() => numRequests(two)).toBe(1);
  await one.end('SIGKILL');
  const ended = await stream.end;
  expect(ended).toMatchObject({ isDone: false, error: null });
  expect(ended.broken).not.toBeNull();
  const [answer, seconds] = await timed(two.ask('/chat/completions', chat));
  expect(answer.status).toBe(200);
  console.log(`the other api answered in ${seconds.toFixed(1)} s`);
  await expect.poll(() => numRequests(two)).toBe(0);
  // A complete answer is counted once.
  await expect.poll(() => completionTokens(two)).toBe(before + 8);
  apis[0] = await parts.start(one.machine, 'api');
}, 200_000);

test('an engine cut off in mid-stream ends its streams with one error; others take requests that have not started', async () => {
  const [one] = apis;
  const streams = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      openedStream(one, {
        ...chat,
        messages: [{ role: 'user', content: `Tell a story about ${index}.` }],
        max_tokens: 4_000,
      }),
    ),
  );
  const begun = performance.now();
  network.cut(one.machine, engines[0].machine);
  // Some of these meet the disconnected engine before that is noticed, and go to the other.
  const during = Array.from({ length: 8 }, async (_, index) =>
    one.ask('/chat/completions', { ...chat, messages: [{ role: 'user', content: `Say ${index}.` }] }),
  );
  const ends = streams.map(async ({ end }) => ({ ...(await end), seconds: (performance.now() - begun) / 1000 }));
  const answers = await Promise.all(during);
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 200));
  console.log(`requests during the cut were answered within ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  const first = await Promise.race(ends);
  expect(first.error).toMatchObject({ code: 'engine.host_lost' });
  console.log(`the first stream ended after ${first.seconds.toFixed(1)} s`);
  for (const { leave } of streams) leave();
  const cut = (await Promise.all(ends)).filter(({ error }) => error !== null);
  expect(cut.length).toBeGreaterThan(0);
  expect(cut.length).toBeLessThan(8);
  // An api that can reach it continues to use it.
  const other = await apis[1].ask('/chat/completions', chat);
  expect(other.status).toBe(200);
  network.heal();
  await expect
    .poll(async () => JSON.stringify(await (await one.ask('/preview/hosts')).json()), { timeout: 60_000 })
    .not.toContain('"state":"down"');
}, 200_000);

/** A write that must have its effect once, for any number of requests. */
const register = (api: NetworkPart, name: string) =>
  api.ask('/preview/models', { project: 'networks', name, base_model: BASE }, { 'idempotency-key': name });
const health = async (api: NetworkPart) => await (await fetch(api.url.replace(/v1$/, 'health'))).text();

/** Many concurrent writes while the database is away, each with an answer in a bounded time. */
async function refusedMeanwhile(api: NetworkPart, name: string): Promise<number> {
  const begun = performance.now();
  const refused = await Promise.all(Array.from({ length: 40 }, (_, index) => register(api, `${name}-${index}`)));
  for (const answer of refused) {
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await answer.text()).toMatch(/store\.(unavailable|busy)/);
  }
  return (performance.now() - begun) / 1000;
}

test.each(['stopped', 'cut off'])(
  'while the database is %s requests that need it get a time to wait, streams continue, and everything recovers',
  async (how) => {
    const [one, two] = apis;
    const name = how.replace(' ', '-');
    const before = await completionTokens(two);
    const streams = await Promise.all(apis.map((api) => openedStream(api, { ...chat, max_tokens: 2_000 })));
    const begun = performance.now();
    if (how === 'stopped') await database.cluster.goAway();
    else for (const { machine } of [...apis, ...engines]) network.cut(machine, database.machine);

    const seconds = await Promise.all(apis.map((api) => refusedMeanwhile(api, name)));
    console.log(`${how}: 40 writes at once were refused within ${Math.max(...seconds).toFixed(1)} s`);
    const [again] = await timed(refusedMeanwhile(one, `${name}-again`));
    console.log(`${how}: the next 40 within ${again.toFixed(1)} s`);
    expect(await health(one)).toContain('the database has not answered for');
    for (const { end } of streams)
      expect(await end).toMatchObject({ isDone: true, numErrors: 0, broken: null, numTokens: 2_000 });
    console.log(`${how}: the streams ended after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    const during = await one.ask('/chat/completions', chat);
    console.log(`${how}: a chat meanwhile is ${during.status}`);
    await new Promise((over) => setTimeout(over, Math.max(0, begun + 35_000 - performance.now())));

    if (how === 'stopped') await database.cluster.comeBack();
    else network.heal();
    const healed = performance.now();
    for (const api of apis) {
      await expect.poll(async () => (await register(api, `${name}-0`)).status, { timeout: 100_000 }).toBe(200);
      await expect.poll(async () => await health(api), { timeout: 100_000 }).toContain('"healthy"');
    }
    console.log(`${how}: recovered within ${((performance.now() - healed) / 1000).toFixed(1)} s`);
    const models = (await one.client.models.list({ project: 'networks' })).data;
    expect(models.filter(({ name: own }) => own === `${name}-0`)).toHaveLength(1);
    await expect
      .poll(() => completionTokens(one), { timeout: 100_000 })
      .toBe(before + 4_000 + (during.status === 200 ? 8 : 0));
    console.log(`${how}: everything is counted after ${((performance.now() - healed) / 1000).toFixed(1)} s`);
  },
  300_000,
);

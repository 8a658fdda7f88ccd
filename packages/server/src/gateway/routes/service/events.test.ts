import type { AddressInfo } from 'node:net';

import type { ListPage, ServiceEventObject } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let origin: string;
beforeAll(async () => {
  server = await TestServer.start();
  await server.app.listen({ port: 0, host: '127.0.0.1' });
  origin = `http://127.0.0.1:${(server.app.server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());

interface Received {
  id: string;
  event: string;
  data: { id: string; type: string; model_id?: string };
}

/** Reads a stream of events until it has that many or ends. */
async function follow(path: string, headers: Record<string, string> = {}) {
  const controller = new AbortController();
  const response = await fetch(`${origin}${path}`, {
    headers: { authorization: `Bearer ${server.key}`, accept: 'text/event-stream', ...headers },
    signal: controller.signal,
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const received: Received[] = [];
  const take = async (count: number): Promise<Received[]> => {
    while (received.length < count) {
      const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
      if (done) break;
      text += value;
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const lines = block.split('\n').map((line) => /^(\w+): (.*)$/.exec(line)?.slice(1) ?? ['', '']);
        const fields = Object.fromEntries(lines) as Record<string, string>;
        if (fields['data'] !== undefined)
          received.push({
            id: fields['id'] ?? '',
            event: fields['event'] ?? '',
            data: JSON.parse(fields['data']) as Received['data'],
          });
      }
    }
    return received.splice(0, count);
  };
  return { response, take, leave: () => controller.abort() };
}

const page = async (query = '', headers = {}) =>
  (await server.request('GET', `/v1/preview/events${query}`, undefined, headers)).json<ListPage<ServiceEventObject>>();

async function runningJob() {
  const modelId = await server.makeModel(crypto.randomUUID());
  await server.store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: `groups/${modelId}` });
  const job = await server.store.jobs.claim('test', 60_000);
  if (job === null) throw new Error('the queue is empty');
  return {
    id: job.id,
    modelId,
    step: (index: number) =>
      server.store.jobs.appendEvent(job.id, job.fencingToken, { type: 'gradient_step', data: { index } }),
    end: () => server.store.jobs.succeed(job.id, job.fencingToken, { directoryKey: null, digest: null, metrics: {} }),
  };
}

test('events come a page at a time, by model, and only those of the own entity', async () => {
  const modelId = await server.makeModel('paged');
  await server.store.checkpoints.delete(modelId, [0]);
  const all = await page(`?model_id=${modelId}`);
  expect(all.data.map(({ type }) => type)).toEqual(['model_created', 'checkpoints_deleted']);
  expect(all.data[1]).toMatchObject({ model_id: modelId, job_id: null, data: { steps: [0] } });
  const first = await page(`?model_id=${modelId}&limit=1`);
  expect(first.has_more).toBe(true);
  expect((await page(`?model_id=${modelId}&after=${first.last_id}`)).data).toEqual(all.data.slice(1));
  const rival = { authorization: `Bearer ${await server.makeKey('rival', ['training'])}` };
  expect((await page('', rival)).data).toEqual([]);
  const foreign = await server.request('GET', `/v1/preview/events?model_id=${modelId}`, undefined, rival);
  expect(foreign.statusCode).toBe(404);
  expect((await server.request('GET', '/v1/preview/events?after=x')).statusCode).toBe(422);
});

test('ids reveal nothing about other entities, and are useless to them', async () => {
  const modelId = await server.makeModel('first');
  const { data: before } = await page(`?model_id=${modelId}`);
  expect(before[0]?.id).toMatch(/^[\w-]{22}$/);
  const rival = { authorization: `Bearer ${await server.makeKey('curious', ['training'])}` };
  const foreign = await server.request('GET', `/v1/preview/events?after=${before[0]?.id}`, undefined, rival);
  expect(foreign.statusCode).toBe(422);
  // Numbers could be guessed: the gap between two of one's own events counts those of others.
  expect((await server.request('GET', '/v1/preview/events?after=1')).statusCode).toBe(422);
});

test('the newest come first on request, and not in a stream', async () => {
  const modelId = await server.makeModel('newest-first');
  await server.store.checkpoints.delete(modelId, [0]);
  const all = await page(`?model_id=${modelId}`);
  const newest = await page(`?model_id=${modelId}&order=desc&limit=1`);
  expect(newest).toMatchObject({ data: [all.data[1]], has_more: true });
  expect(await page(`?model_id=${modelId}&order=desc&after=${newest.last_id}`)).toMatchObject({
    data: [all.data[0]],
    has_more: false,
  });
  expect((await follow('/v1/preview/events?order=desc')).response.status).toBe(422);
});

test('a stream starts with its position, so a client that lost it before the first event can resume', async () => {
  const stream = await fetch(`${origin}/v1/preview/events`, {
    headers: { authorization: `Bearer ${server.key}`, accept: 'text/event-stream' },
  });
  const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
  const { value } = await reader.read();
  const last = /^retry: 2000\nid: ([\w-]{22})\n\n$/.exec(value ?? '')?.[1];
  expect(last).toBeDefined();
  await reader.cancel();
  const modelId = await server.makeModel('meanwhile');
  const again = await follow('/v1/preview/events', { 'last-event-id': last! });
  expect(await again.take(1)).toMatchObject([{ data: { model_id: modelId } }]);
  again.leave();
});

test('a stream has named events with ids, and resumes after the last one seen', async () => {
  const stream = await follow('/v1/preview/events');
  expect(stream.response.headers.get('content-type')).toContain('text/event-stream');
  const job = await runningJob();
  const seen = await stream.take(3);
  expect(seen.map(({ event }) => event)).toEqual(['model_created', 'job_queued', 'job_started']);
  expect(seen.every(({ id, event, data }) => data.id === id && data.type === event)).toBe(true);
  stream.leave();
  await job.step(0);
  await job.end();
  const again = await follow('/v1/preview/events', { 'last-event-id': seen[2]?.id ?? '' });
  expect((await again.take(3)).map(({ event }) => event)).toEqual([
    'gradient_step',
    'checkpoint_created',
    'training_ended',
  ]);
  again.leave();
  const ofModel = await follow(`/v1/preview/events?model_id=${job.modelId}&after=0`);
  expect((await ofModel.take(1))[0]?.data.model_id).toBe(job.modelId);
  ofModel.leave();
  const refused = await follow('/v1/preview/events', { 'last-event-id': 'x' });
  expect(refused.response.status).toBe(422);
});

test('the stream of a job has each of its events once and ends after the last; a later one is empty', async () => {
  const job = await runningJob();
  const path = `/v1/preview/training-jobs/${job.id}/events`;
  await job.step(0);
  const stream = await follow(path);
  const [first] = await stream.take(1);
  expect(first).toMatchObject({ event: 'gradient_step', data: { data: { index: 0 } } });
  stream.leave();
  await job.step(1);
  const again = await follow(path, { 'last-event-id': first?.id ?? '' });
  expect((await again.take(1))[0]).toMatchObject({ data: { data: { index: 1 } } });
  await job.end();
  const rest = await again.take(100);
  expect(rest.map(({ event }) => event)).toEqual(['training_ended']);
  const over = await follow(path, { 'last-event-id': rest[0]?.id ?? '' });
  expect(over.response.status).toBe(204);
  const unknown = await follow(path, { 'last-event-id': 'nonsense' });
  expect(unknown.response.status).toBe(422);
  expect((await follow('/v1/preview/training-jobs/unknown/events')).response.status).toBe(404);
  // Without the header it is the list, unchanged.
  const { data } = (await server.request('GET', path)).json<ListPage<{ id: string; type: string }>>();
  expect(data.map(({ type }) => type)).toEqual(['gradient_step', 'gradient_step', 'training_ended']);
});

test('a stream ends with its key, and with the service', async () => {
  const other = await TestServer.start();
  await other.app.listen({ port: 0, host: '127.0.0.1' });
  const url = `http://127.0.0.1:${(other.app.server.address() as AddressInfo).port}/v1/preview/events`;
  const open = (key: string) =>
    fetch(url, { headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' } });
  const { id: entityId } = await other.store.keys.ensureEntity('acme');
  const short = await other.store.keys.create({ entityId, name: 'short', scopes: ['training'] });
  const [revoked, lasting] = [await open(short.secret), await open(other.key)];
  await other.store.keys.revoke(short.id);
  await expect(revoked.text()).rejects.toThrow('terminated');
  const rest = lasting.text();
  await other.close();
  expect(await rest).toContain('retry: ');
});

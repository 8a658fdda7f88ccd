import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Trainyard } from '../client.ts';
import { TrainyardConnectionError } from './errors.ts';
import type { Outage } from './outage.ts';

interface Asked {
  accept: string | null;
  lastEventId: string | null;
  query: string;
}

/** A client whose requests get these answers in turn; the last one repeats. */
function answering(...answers: ((signal: AbortSignal) => Response | Promise<Response>)[]) {
  const asked: Asked[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    const headers = new Headers(init.headers);
    const query = new URL(url).search;
    asked.push({ accept: headers.get('accept'), lastEventId: headers.get('last-event-id'), query });
    return await answers[Math.min(asked.length, answers.length) - 1]!(init.signal as AbortSignal);
  }) as typeof globalThis.fetch;
  return { asked, client: new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch }) };
}

const event = (id: string, type = 'gradient_step') => ({ id, type, data: {} });
const text = (...events: object[]) =>
  events.map((one) => `id: ${(one as { id: string }).id}\ndata: ${JSON.stringify(one)}\n\n`).join('');
const SSE = { headers: { 'content-type': 'text/event-stream' } };
const streamOf =
  (...events: object[]) =>
  () =>
    new Response(`retry: 2000\n\n${text(...events)}`, SSE);
const silent = () => new Response(new ReadableStream({ pull: () => new Promise(() => undefined) }), SSE);
const pageOf =
  (hasMore: boolean, ...data: object[]) =>
  () =>
    Response.json({ object: 'list', data, has_more: hasMore });
const down = () => Promise.reject(new TypeError('fetch failed'));
const END = event('9', 'training_ended');

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Ids of the events, then the error if there is one. */
async function watched(events: AsyncGenerator<{ id: string }>): Promise<string[]> {
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { id } of events) seen.push(id);
  })().catch((error: Error) => seen.push(error.name));
  await vi.runAllTimersAsync();
  await reading;
  return seen;
}

test('the events of a job come to the last one', async () => {
  const { asked, client } = answering(streamOf(event('1'), event('2'), END));
  expect(await watched(client.trainingJobs.watch('j'))).toEqual(['1', '2', '9']);
  expect(asked).toEqual([{ accept: 'text/event-stream', lastEventId: null, query: '' }]);
});

test('after a lost connection or an absent service it continues after the last event', async () => {
  const { asked, client } = answering(streamOf(event('1')), down, down, streamOf(event('2'), END));
  expect(await watched(client.trainingJobs.watch('j'))).toEqual(['1', '2', '9']);
  expect(asked.map(({ lastEventId }) => lastEventId)).toEqual([null, '1', '1', '1']);
});

test('it can start after an event', async () => {
  const { asked, client } = answering(() => new Response(null, { status: 204 }));
  expect(await watched(client.trainingJobs.watch('j', { after: '9' }))).toEqual([]);
  expect(asked).toMatchObject([{ lastEventId: '9' }]);
});

test('without a stream it reads pages', async () => {
  const { asked, client } = answering(
    pageOf(false),
    pageOf(true, event('1')),
    pageOf(false, event('2')),
    pageOf(false),
    pageOf(false, END),
  );
  expect(await watched(client.trainingJobs.watch('j'))).toEqual(['1', '2', '9']);
  expect(asked.map(({ query }) => query)).toEqual([
    '',
    '?limit=100',
    '?after=1&limit=100',
    '?after=2&limit=100',
    '?after=2&limit=100',
  ]);
});

test('a proxy that holds streams back is noticed by two silences', async () => {
  const { asked, client } = answering(silent, silent, pageOf(false, event('1'), END));
  expect(await watched(client.trainingJobs.watch('j'))).toEqual(['1', '9']);
  expect(asked.map(({ accept }) => accept)).toEqual(['text/event-stream', 'text/event-stream', null]);
});

test('a service that stays away is an error in the end, which names the job and how to wait for it again', async () => {
  const { asked, client } = answering(down);
  const outages: Outage[] = [];
  const options = { maxOutageMs: 1_500, onOutage: (outage: Outage) => void outages.push(outage) };
  const failing = client.trainingJobs.watch('j', options).next();
  const failed = failing.catch((reason: unknown) => reason);
  await vi.runAllTimersAsync();
  const error = await failed;
  expect(error).toBeInstanceOf(TrainyardConnectionError);
  expect(error).toMatchObject({ jobId: 'j', message: expect.stringContaining("`client.trainingJobs.wait('j')`") });
  expect(asked.length).toBeGreaterThan(2);
  expect(outages).toEqual([{ baseUrl: client.baseUrl, reason: expect.any(String), maxOutageMs: 1_500 }]);
});

test('each outage is noticed once, and an answer ends it', async () => {
  const { client } = answering(down, down, pageOf(true, event('1')), down, pageOf(false, END));
  const outages: Outage[] = [];
  const options = {
    transport: 'poll',
    pollIntervalMs: 1,
    onOutage: (outage: Outage) => void outages.push(outage),
  } as const;
  expect(await watched(client.trainingJobs.watch('j', options))).toEqual(['1', '9']);
  expect(outages).toHaveLength(2);
});

test('a refusal is an error at once', async () => {
  const { asked, client } = answering(() => Response.json({}, { status: 404 }));
  expect(await watched(client.trainingJobs.watch('j'))).toEqual(['NotFoundError']);
  expect(asked).toHaveLength(1);
});

/** Queries and last ids of requests if the newest event is the fifth. */
const asksFrom = ({ query, lastEventId }: Asked) => lastEventId ?? query;
const newest = pageOf(true, event('5'));

test('the events of the service start now, with pages too', async () => {
  const abort = new AbortController();
  const { asked, client } = answering(newest, pageOf(true, event('6')), pageOf(false), pageOf(false, event('7')));
  const events = client.events.watch({ model_id: 'm' }, { transport: 'poll', signal: abort.signal });
  expect((await events.next()).value).toMatchObject({ id: '6' });
  const next = events.next();
  await vi.advanceTimersByTimeAsync(1000);
  expect((await next).value).toMatchObject({ id: '7' });
  expect(asked.map(({ query }) => query)).toEqual([
    '?model_id=m&limit=1&order=desc',
    '?model_id=m&after=5&limit=1000',
    '?model_id=m&after=6&limit=1000',
    '?model_id=m&after=6&limit=1000',
  ]);
  abort.abort(new Error('left'));
  await expect(events.next()).rejects.toThrow('left');
});

test('events during a lost connection without an earlier event are not lost', async () => {
  const { asked, client } = answering(newest, streamOf(), down, streamOf(event('6'), event('7')), streamOf(event('8')));
  const events = client.events.watch();
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { id } of events) if (seen.push(id) === 3) break;
  })();
  await vi.runAllTimersAsync();
  await reading;
  expect(seen).toEqual(['6', '7', '8']);
  expect(asked.map(asksFrom)).toEqual(['?limit=1&order=desc', '5', '5', '5', '7']);
});

test('events while a proxy buffers streams are not lost either', async () => {
  const { asked, client } = answering(newest, silent, silent, pageOf(false, event('6')));
  const first = client.events.watch().next();
  await vi.advanceTimersByTimeAsync(120_000);
  expect((await first).value).toMatchObject({ id: '6' });
  expect(asked.map(asksFrom)).toEqual(['?limit=1&order=desc', '5', '5', '?after=5&limit=1000']);
});

test('without any earlier event it starts before the first one', async () => {
  const { asked, client } = answering(down, pageOf(false), streamOf(event('1')));
  const first = client.events.watch().next();
  await vi.advanceTimersByTimeAsync(5000);
  expect((await first).value).toMatchObject({ id: '1' });
  expect(asked.map(asksFrom)).toEqual(['?limit=1&order=desc', '?limit=1&order=desc', '0']);
});

/**
 * Background answers with several processes: each ends once, regardless of lost processes or databases, and
 * its events have no gaps or duplicates.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import OpenAI from 'openai';
import { PostgresCluster } from '@trainyard/store/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { smallService } from '../support/small-service.ts';

const MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const KEY = 'the-key-of-all-processes';
type Event = OpenAI.Responses.ResponseStreamEvent;
type Answer = OpenAI.Responses.Response;

const folder = mkdtempSync(join(tmpdir(), 'trainyard-background-'));
let cluster: PostgresCluster;
let database: string;
const services: OwnService[] = [];
beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  database = await cluster.createSchema();
});
afterAll(async () => {
  await Promise.all(services.map((service) => service.stop()));
  await cluster.stop();
  rmSync(folder, { recursive: true });
});

/** Starts a process on the shared database, or on a private one in its folder. */
async function start(name: string, { isShared = true } = {}): Promise<OwnService> {
  const dataDirectory = join(folder, name);
  mkdirSync(dataDirectory, { recursive: true, mode: 0o700 });
  const environment: Record<string, string> = { TRAINYARD_API_KEY: KEY };
  if (isShared) {
    environment['TRAINYARD_DATABASE'] = database;
    mkdirSync(join(folder, 'blobs'), { recursive: true, mode: 0o700 });
    if (!existsSync(join(dataDirectory, 'blobs'))) symlinkSync(join(folder, 'blobs'), join(dataDirectory, 'blobs'));
  }
  const service = await smallService({ dataDirectory, environment });
  services.push(service);
  return service;
}

const at = ({ url }: OwnService) => new OpenAI({ baseURL: url, apiKey: KEY, maxRetries: 4 }).responses;

/** A request that takes some seconds. */
const long = (fields: object = {}) => ({
  model: MODEL,
  input: 'Go on.',
  background: true,
  max_output_tokens: 6_000,
  ignore_eos: true,
  ...fields,
});

async function begin(service: OwnService, fields: object = {}): Promise<string> {
  return (await at(service).create(long(fields))).id;
}

/** Reads a stream concurrently with the test. */
class Reader {
  readonly events: Event[] = [];
  readonly ended: Promise<'whole' | 'cut'>;

  constructor(stream: PromiseLike<AsyncIterable<Event>>) {
    this.ended = this.#read(stream).then(
      () => 'whole' as const,
      () => 'cut' as const,
    );
  }

  async #read(stream: PromiseLike<AsyncIterable<Event>>): Promise<void> {
    for await (const event of await stream) this.events.push(event);
  }

  get id(): string {
    const [first] = this.events;
    assert(first?.type === 'response.created');
    return first.response.id;
  }

  /** Kinds of the events that end an answer. */
  get ends(): string[] {
    const ends = ['response.completed', 'response.incomplete', 'response.failed', 'error'];
    return this.events.map(({ type }) => type).filter((type) => ends.includes(type));
  }
}

async function hasRead({ events }: Reader, numEvents: number): Promise<void> {
  await expect.poll(() => events.length, { timeout: 60_000, interval: 10 }).toBeGreaterThanOrEqual(numEvents);
}

const streamed = (service: OwnService, fields: object = {}) =>
  new Reader(at(service).create({ ...long(fields), stream: true }) as unknown as PromiseLike<AsyncIterable<Event>>);
const resumed = (service: OwnService, id: string, after: number) =>
  new Reader(
    at(service).retrieve(id, { stream: true, starting_after: after }) as unknown as PromiseLike<AsyncIterable<Event>>,
  );

/** All events of an answer, as a process replays them later. */
async function replayed(service: OwnService, id: string): Promise<Reader> {
  const reader = new Reader(at(service).retrieve(id, { stream: true }) as unknown as PromiseLike<AsyncIterable<Event>>);
  expect(await reader.ended).toBe('whole');
  expectNumbers(reader.events, 0);
  return reader;
}

function expectNumbers(events: readonly Event[], from: number): void {
  expect(events.map((event) => event.sequence_number)).toEqual(events.map((_event, index) => from + index));
}

async function kill(service: OwnService): Promise<void> {
  process.kill(service.pid, 'SIGKILL');
  await service.stop();
}

async function running(service: OwnService): Promise<number> {
  const text = await (await fetch(`${service.url.replace(/\/v1$/, '')}/metrics`)).text();
  return Number(/^vllm:num_requests_running\{[^}]*\} (\d+)$/m.exec(text)?.[1]);
}

const LOST = { status: 'failed', error: { code: 'server.unavailable' } };

describe('two processes on PostgreSQL', () => {
  let one: OwnService;
  let two: OwnService;
  beforeAll(async () => {
    [one, two] = [await start('one'), await start('two')];
  }, 100_000);

  test('answers of a killed process are ended once by the other, and so are their streams', async () => {
    const first = streamed(one);
    await hasRead(first, 20);
    const { id } = first;
    const second = resumed(two, id, 9);
    const polled = await begin(one);
    await expect.poll(async () => (await at(two).retrieve(polled)).status, { timeout: 60_000 }).toBe('in_progress');
    await hasRead(second, 20);
    await kill(one);
    const killedAt = performance.now();
    expect(await first.ended).toBe('cut');
    expect((await at(two).retrieve(polled)).status).toBe('in_progress');
    expect(await second.ended).toBe('whole');
    console.log(
      `another process ended the answer ${Math.round((performance.now() - killedAt) / 1000)} s after the kill`,
    );
    expectNumbers(second.events, 10);
    expect(second.ends).toEqual(['response.failed']);
    const overlap = first.events.slice(10);
    expect(second.events.slice(0, overlap.length)).toEqual(overlap);
    await expect.poll(async () => await at(two).retrieve(polled), { interval: 500 }).toMatchObject(LOST);
    const whole = await replayed(two, id);
    expect([whole.events.slice(10), whole.ends]).toEqual([second.events, ['response.failed']]);

    one = await start('one');
    for (const service of [one, two]) {
      expect(await at(service).cancel(polled)).toMatchObject(LOST);
      expect((await replayed(service, id)).events).toEqual(whole.events);
    }

    // Restarted at once, it gives up its own unfinished answer.
    const third = streamed(one);
    await hasRead(third, 20);
    const reader = resumed(two, third.id, 4);
    await hasRead(reader, 10);
    await kill(one);
    one = await start('one');
    const startedAt = performance.now();
    expect(await reader.ended).toBe('whole');
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expectNumbers(reader.events, 5);
    expect(reader.ends).toEqual(['response.failed']);
    for (const service of [one, two]) expect(await at(service).retrieve(third.id)).toMatchObject(LOST);
  }, 400_000);

  test('answers of one process can be cancelled and deleted in the other', async () => {
    const cancelled = streamed(one);
    await hasRead(cancelled, 20);
    expect(await at(two).cancel(cancelled.id)).toMatchObject({ status: 'cancelled' });
    expect(await cancelled.ended).toBe('whole');
    expect(cancelled.ends).toEqual([]);
    await expect.poll(() => running(one)).toBe(0);
    for (const service of [one, two]) {
      expect((await at(service).retrieve(cancelled.id)).status).toBe('cancelled');
      expect((await replayed(service, cancelled.id)).ends).toEqual([]);
    }

    const deleted = streamed(one);
    await hasRead(deleted, 20);
    await at(two).delete(deleted.id);
    expect(await deleted.ended).toBe('whole');
    expect(deleted.ends).toEqual([]);
    await expect.poll(() => running(one)).toBe(0);
    for (const service of [one, two])
      await expect(at(service).retrieve(deleted.id)).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  }, 200_000);

  test.each(['goAway', 'crash'] as const)(
    'a database that is away for some seconds costs no answer: %s',
    async (how) => {
      const first = streamed(one, { max_output_tokens: 3_000 });
      await hasRead(first, 20);
      const second = resumed(two, first.id, 9);
      await hasRead(second, 20);
      const done = await begin(one, { max_output_tokens: 4 });
      const ended = async () => (await at(one).retrieve(done)).status;
      await expect.poll(ended, { interval: 20 }).toBe('incomplete');
      // This one ends while the database is away.
      const brief = await begin(one, { max_output_tokens: 40 });
      await cluster[how]();
      await delay(2_500);
      await cluster.comeBack();
      for (const reader of [first, second]) {
        expect(await reader.ended).toBe('whole');
        expect(reader.ends).toEqual(['response.incomplete']);
      }
      expectNumbers(first.events, 0);
      expect(second.events).toEqual(first.events.slice(10));
      for (const service of [one, two]) {
        expect((await at(service).retrieve(done)).status).toBe('incomplete');
        await expect.poll(async () => (await at(service).retrieve(brief)).status, { interval: 500 }).toBe('incomplete');
        expect((await replayed(service, first.id)).events).toEqual(first.events);
        const last = first.events.at(-1);
        assert(last?.type === 'response.incomplete');
        expect((await at(service).retrieve(first.id)).output).toEqual(last.response.output);
      }
    },
    200_000,
  );
});

test('one process on SQLite: unfinished answers of a killed process have failed when it is back', async () => {
  const one = await start('sqlite', { isShared: false });
  const first = streamed(one);
  await hasRead(first, 20);
  const polled = await begin(one);
  const done: Answer = await at(one).create({ ...long({ max_output_tokens: 4 }), background: false });
  await kill(one);
  expect(await first.ended).toBe('cut');
  const back = await start('sqlite', { isShared: false });
  for (const id of [first.id, polled]) expect(await at(back).retrieve(id)).toMatchObject(LOST);
  const whole = await replayed(back, first.id);
  expect(whole.events.slice(0, first.events.length)).toEqual(first.events);
  expect(whole.ends).toEqual(['response.failed']);
  expect((await at(back).retrieve(done.id)).output).toEqual(done.output);
  const next = await at(back).create({
    ...long({ max_output_tokens: 4 }),
    background: false,
    previous_response_id: done.id,
  });
  expect(next.previous_response_id).toBe(done.id);
}, 200_000);

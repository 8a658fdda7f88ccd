/**
 * Limits of a key over two services on one database: they are one limit, and a killed service frees its
 * places.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type KeyLimitsRequest, Trainyard } from '@trainyard/sdk';
import { PostgresCluster } from '@trainyard/store/testing';
import OpenAI from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { smallService } from '../support/small-service.ts';

const folder = mkdtempSync(join(tmpdir(), 'trainyard-key-limits-'));
let cluster: PostgresCluster;
let one: OwnService;
let two: OwnService;

/** A data folder with shared blobs, as on a shared volume. */
function dataDirectory(name: string): string {
  const path = join(folder, name);
  for (const each of [path, join(folder, 'blobs')]) mkdirSync(each, { recursive: true, mode: 0o700 });
  symlinkSync(join(folder, 'blobs'), join(path, 'blobs'));
  return path;
}

beforeAll(async () => {
  const programs = process.env['TRAINYARD_TEST_POSTGRES'];
  assert(programs !== undefined, 'the project `postgres` starts the server');
  cluster = await PostgresCluster.start(programs);
  const environment = { TRAINYARD_DATABASE: await cluster.createSchema(), TRAINYARD_API_KEY: 'the-key-of-both' };
  [one, two] = (await Promise.all(
    (['one', 'two'] as const).map((name) => smallService({ dataDirectory: dataDirectory(name), environment })),
  )) as [OwnService, OwnService];
}, 300_000);
afterAll(async () => {
  await Promise.all([one?.stop(), two?.stop()]);
  await cluster?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A limited key at both services. */
async function limitedKey(limits: KeyLimitsRequest) {
  const admin = new Trainyard({ baseUrl: one.url, apiKey: one.apiKey });
  const { id, secret } = await admin.keys.create({ name: 'limited', scopes: ['inference'], limits });
  const clients = [one, two].map(({ url }) => new OpenAI({ baseURL: url, apiKey: secret ?? '', maxRetries: 0 }));
  return { admin, id, secret: secret ?? '', clients };
}

const ASK = { model: 'HuggingFaceTB/SmolLM2-135M-Instruct', messages: [{ role: 'user' as const, content: 'Hi' }] };
const chat = (client: OpenAI) => client.chat.completions.create({ ...ASK, max_tokens: 2 });

test('both together admit no more than the limit, and OpenAI’s client succeeds after waiting', async () => {
  const perMinute = 20;
  const { admin, id, secret, clients } = await limitedKey({ requests_per_minute: perMinute });
  const begunAt = performance.now();
  const outcomes = await Promise.allSettled(Array.from({ length: 60 }, (_, index) => chat(clients[index % 2]!)));
  const refilled = ((performance.now() - begunAt) / 60_000) * perMinute;
  const numLetThrough = outcomes.filter(({ status }) => status === 'fulfilled').length;
  console.log(
    `${numLetThrough} of 60 requests of a key with ${perMinute} per minute were admitted, ${refilled} came back`,
  );
  expect(numLetThrough).toBeGreaterThanOrEqual(perMinute);
  expect(numLetThrough).toBeLessThanOrEqual(perMinute + Math.ceil(refilled));
  for (const outcome of outcomes)
    if (outcome.status === 'rejected') {
      expect(outcome.reason).toBeInstanceOf(OpenAI.RateLimitError);
      expect(outcome.reason).toMatchObject({ code: 'rate_limit_exceeded' });
    }

  const patient = new OpenAI({ baseURL: two.url, apiKey: secret, maxRetries: 6 });
  expect((await chat(patient)).choices).toHaveLength(1);
  // Raised at one, it is raised at the other.
  await admin.keys.update(id, { limits: { requests_per_minute: null } });
  await Promise.all(Array.from({ length: 10 }, (_, index) => chat(clients[index % 2]!)));
}, 200_000);

test('tokens sampled by one count at the other', async () => {
  const { clients } = await limitedKey({ tokens_per_minute: 100 });
  const [here, there] = [clients[0]!, clients[1]!];
  const sampled = await here.chat.completions.create({
    ...ASK,
    max_tokens: 150,
    ...({ ignore_eos: true } as object),
  });
  const numTokens = sampled.usage?.total_tokens ?? 0;
  expect(numTokens).toBeGreaterThan(150);
  // Within a tenth of a second; it is free again after half a minute.
  await expect
    .poll(
      () =>
        chat(there).then(
          () => 'let through',
          (error: unknown) => (error as Error).message,
        ),
      { timeout: 20_000 },
    )
    .toMatch(/^429 Rate limit reached: this key may use 100 tokens per minute \(tokens_per_minute\)/);
});

test('requests in flight of a killed service are released when its lease ends', async () => {
  const { clients, secret } = await limitedKey({ max_requests_in_flight: 2 });
  const [here, there] = [clients[0]!, clients[1]!];
  const endless = { ...ASK, max_tokens: 6000, stream: true as const, ...({ ignore_eos: true } as object) };
  const streams = await Promise.all([0, 1].map(() => here.chat.completions.create(endless)));
  const chunks = streams.map((stream) => stream[Symbol.asyncIterator]());
  for (const each of chunks) expect((await each.next()).done).toBe(false);
  await expect(chat(there)).rejects.toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
  await expect(chat(here)).rejects.toMatchObject({ status: 429 });

  process.kill(one.pid, 'SIGKILL');
  const killedAt = performance.now();
  for (const each of chunks)
    void (async () => {
      while (!(await each.next()).done);
    })().catch(() => undefined);
  await expect(chat(there)).rejects.toMatchObject({ status: 429 });
  const isFree = async () =>
    chat(there).then(
      () => true,
      () => false,
    );
  await expect.poll(isFree, { timeout: 60_000, interval: 250 }).toBe(true);
  console.log(`its places were free ${Math.round((performance.now() - killedAt) / 100) / 10} s after it was killed`);
  const figures = await (await fetch(new URL('/metrics', two.url))).text();
  expect(figures).toMatch(/^trainyard_key_limit_refusals_total\{limit="max_requests_in_flight",[^}]*\} [1-9]/m);
  expect(figures).not.toContain(secret);
}, 200_000);

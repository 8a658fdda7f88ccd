/**
 * A burst of streams over HTTP with the real service: streams above the limit are refused at once, and
 * leaving clients free everything.
 */
import http from 'node:http';

import { afterAll, beforeAll, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { smallService } from '../support/small-service.ts';

const MAX_REQUESTS = 16;
const NUM_STREAMS = 300;
const TIMEOUT_MS = 600_000;

let service: OwnService;
beforeAll(async () => {
  service = await smallService({ environment: { TRAINYARD_MAX_REQUESTS: String(MAX_REQUESTS) } });
}, TIMEOUT_MS);
afterAll(async () => {
  await service.close();
}, TIMEOUT_MS);

interface Sent {
  readonly answered: Promise<http.IncomingMessage>;
  readonly leave: () => void;
}

function send(fields: object): Sent {
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
  promise.catch(() => undefined); // for one that leaves
  const request = http.request(`${service.url}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
  });
  request.on('response', (response) => resolve(response.resume()));
  request.on('error', reject);
  request.end(JSON.stringify({ messages: [{ role: 'user', content: 'Tell me about the sea.' }], ...fields }));
  return { answered: promise, leave: () => request.destroy() };
}

it(
  'streams above the limit are 429 with Retry-After, those below are served, and after all disconnect the next request is answered',
  async () => {
    const streams = Array.from({ length: NUM_STREAMS }, () =>
      send({ stream: true, n: 8, max_tokens: 8_000, ignore_eos: true }),
    );
    const statuses: (number | undefined)[] = [];
    const enough = Promise.withResolvers<void>();
    for (const { answered } of streams) {
      void answered.then(({ statusCode, headers }) => {
        statuses.push(statusCode);
        if (statusCode === 429) expect(headers['retry-after']).toBe('1');
        if (statuses.length === NUM_STREAMS) enough.resolve();
      });
    }
    // Endless streams hold their places, so exactly the others are refused: all of them get their answer.
    await enough.promise;
    expect(statuses.filter((status) => status === 200)).toHaveLength(MAX_REQUESTS);
    expect(statuses.filter((status) => status === 429)).toHaveLength(NUM_STREAMS - MAX_REQUESTS);
    for (const { leave } of streams) leave();

    // Their resources are freed once the service has noticed the disconnects.
    let answer = await send({ max_tokens: 1 }).answered;
    while (answer.statusCode === 429) answer = await send({ max_tokens: 1 }).answered;
    expect(answer.statusCode).toBe(200);
    expect((await fetch(`${service.url}/health`)).status).toBe(200);
  },
  TIMEOUT_MS,
);

it(
  'a request with more choices than can run at once is refused, with the limit and the remedy',
  async () => {
    const response = await fetch(`${service.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }], n: 16_384, max_tokens: 1 }),
    });
    const { error } = (await response.json()) as { error: { param: string; message: string } };
    expect([response.status, error.param]).toEqual([400, 'n']);
    expect(error.message).toContain('[1, 128]');
  },
  TIMEOUT_MS,
);

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';

import { Trainyard } from '../client.ts';

/** Undici checks its limits twice per second. */
const SILENT_MS = 2_500;
const DISPATCHER = Symbol.for('undici.globalDispatcher.1');
type Dispatcher = { constructor: new (options: { headersTimeout: number }) => Dispatcher; close(): Promise<void> };
const held = globalThis as unknown as Record<symbol, Dispatcher | undefined>;

let server: Server;
let url: string;
beforeAll(async () => {
  server = createServer((_request, response) => {
    const answer = () => response.setHeader('content-type', 'application/json').end('{"object":"list","data":[]}');
    setTimeout(answer, SILENT_MS);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
afterEach(() => vi.unstubAllGlobals());

describe('if the fetch of Node gives up after a tenth of a second', () => {
  let usual: Dispatcher;
  let hasty: Dispatcher;
  beforeAll(() => {
    void new Headers(); // loads undici
    usual = held[DISPATCHER]!;
    hasty = held[DISPATCHER] = new usual.constructor({ headersTimeout: 100 });
  });
  afterAll(async () => {
    held[DISPATCHER] = usual;
    await hasty.close();
  });
  const client = (timeoutMs?: number) => new Trainyard({ baseUrl: `${url}/v1`, apiKey: 'k', maxRetries: 0, timeoutMs });

  test('the client waits for an answer up to its own limit', async () => {
    const plain = fetch(url).then(
      () => 'answered',
      (error: Error) => (error.cause as Error).name,
    );
    const own = client().servedModels.list();
    expect(await plain).toBe('HeadersTimeoutError');
    expect(await own).toMatchObject({ data: [] });
  }, 20_000);

  test('and no longer', async () => {
    await expect(client(300).servedModels.list()).rejects.toThrow('no response within 0.3 s (`timeoutMs`)');
  });
});

test('without a dispatcher the global fetch gets the same arguments as before', async () => {
  const inits: (RequestInit | undefined)[] = [];
  void new Headers(); // loads undici
  const usual = held[DISPATCHER];
  vi.stubGlobal('fetch', async (_url: string, init?: RequestInit) => {
    inits.push(init);
    return Response.json({ object: 'list', data: [] });
  });
  const client = new Trainyard({ baseUrl: `${url}/v1`, apiKey: 'k' });
  try {
    held[DISPATCHER] = undefined;
    await client.servedModels.list();
  } finally {
    held[DISPATCHER] = usual;
  }
  await client.servedModels.list();
  expect(inits.map((init) => 'dispatcher' in init!)).toEqual([false, true]);
});

import type { AddressInfo } from 'node:net';

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SessionLinkObject, SessionObject } from '@trainyard/protocol';

import { TestServer } from '../../../testing/test-server.ts';

const HOST = 'localhost:8420';
const OWN = { host: HOST, 'sec-fetch-site': 'same-origin', origin: `http://${HOST}` };

let server: TestServer;
beforeAll(async () => void (server = await TestServer.start()));
afterAll(() => server.close());

type Method = 'GET' | 'POST' | 'DELETE';
const send = (method: Method, url: string, headers: Record<string, string> = {}, payload?: object) =>
  server.app.inject({
    method,
    url,
    headers: { host: HOST, ...headers },
    ...(payload === undefined ? {} : { payload }),
  });

/** Signs in. @returns the cookie as a browser sends it */
async function signIn(proof: object = { key: server.key }): Promise<string> {
  const response = await send('POST', '/v1/session', OWN, proof);
  expect(response.statusCode, response.body).toBe(200);
  return String(response.headers['set-cookie']).split(';')[0]!;
}

async function makeLink(authorization = `Bearer ${server.key}`): Promise<string> {
  const response = await send('POST', '/v1/session-links', { authorization });
  expect(response.statusCode).toBe(200);
  const { path } = response.json<SessionLinkObject>();
  expect(path).toMatch(/^\/sign-in#[\w-]{43}$/);
  return path.slice('/sign-in#'.length);
}

const whoIs = async (cookie: string) =>
  (await send('GET', '/v1/session', { ...OWN, cookie })).json<SessionObject>().key?.name ?? null;

async function makeKey(scopes: ('inference' | 'training' | 'admin')[], entity = 'acme') {
  const { id } = await server.store.keys.ensureEntity(entity);
  return await server.store.keys.create({ entityId: id, name: `for ${scopes.join(' ')}`, scopes });
}

describe('signing in', () => {
  test('with a key: the cookie is only for this service, and no script can read it', async () => {
    const response = await send('POST', '/v1/session', OWN, { key: server.key });
    expect(response.headers['set-cookie']).toMatch(
      /^trainyard_session_8420=[\w-]{43}; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict$/,
    );
    expect(response.headers['cache-control']).toBe('no-store');
    expect(response.body).not.toContain(server.key);
    expect((await send('GET', '/v1/preview/models', { ...OWN, cookie: await signIn() })).statusCode).toBe(200);
  });

  test('over TLS the cookie is Secure', async () => {
    const headers = { host: 'localhost', origin: 'https://localhost', 'sec-fetch-site': 'same-origin' };
    const response = await send('POST', '/v1/session', headers, { key: server.key });
    expect(response.headers['set-cookie']).toMatch(/^trainyard_session=.*; Secure$/);
  });

  test('with a link, once', async () => {
    const code = await makeLink();
    expect(await whoIs(await signIn({ code }))).not.toBeNull();
    const again = await send('POST', '/v1/session', OWN, { code });
    expect(again.statusCode).toBe(401);
    expect(again.json()).toMatchObject({ error: { code: 'request.unauthenticated' } });
    expect(again.headers['set-cookie']).toBeUndefined();
  });

  test.each([{}, { key: 'a', code: 'b' }, { key: 3 }, { key: '' }])('%j is no proof: 422', async (proof) => {
    expect((await send('POST', '/v1/session', OWN, proof)).statusCode).toBe(422);
  });

  test('an ended key is 401 with the reason, and an unknown one reveals nothing', async () => {
    const { id: entityId } = await server.store.keys.ensureEntity('acme');
    const make = (name: string, expiresAt?: number) =>
      server.store.keys.create({
        entityId,
        name,
        scopes: ['inference'],
        ...(expiresAt === undefined ? {} : { expiresAt }),
      });
    const expired = await make('for a day', Date.UTC(2025, 0, 2, 3, 4, 5));
    const revoked = await make('for ever');
    await server.store.keys.revoke(revoked.id);
    const messageOf = async (key: string) =>
      (await send('POST', '/v1/session', OWN, { key })).json<{ error: { message: string } }>().error.message;
    expect(await messageOf(expired.secret)).toBe(
      'The key `for a day` expired on 2025-01-02 at 03:04 UTC. Use another one',
    );
    expect(await messageOf(revoked.secret)).toMatch(
      /^The key `for ever` was revoked on 20\d\d-\d\d-\d\d at \d\d:\d\d UTC\./,
    );
    expect(await messageOf('wrong')).toBe('The API key is unknown. Check that it was copied as a whole');
  });

  test('a wrong key and a made-up code are 401', async () => {
    for (const proof of [{ key: 'wrong' }, { code: 'x'.repeat(43) }])
      expect((await send('POST', '/v1/session', OWN, proof)).statusCode).toBe(401);
  });

  test('a link has the rights of the key that asked for it, and any key may', async () => {
    const key = await makeKey(['inference']);
    const cookie = await signIn({ code: await makeLink(`Bearer ${key.secret}`) });
    expect(await whoIs(cookie)).toBe('for inference');
    expect((await send('GET', '/v1/models', { ...OWN, cookie })).statusCode).toBe(200);
    expect((await send('GET', '/v1/preview/models', { ...OWN, cookie })).statusCode).toBe(403);
    expect((await send('GET', '/v1/keys', { ...OWN, cookie })).statusCode).toBe(403);
  });
});

describe('a session', () => {
  test('sees only the data of its key’s entity', async () => {
    const id = await server.makeModel('of-the-first');
    const cookie = await signIn({ key: (await makeKey(['training'], 'rival')).secret });
    const own = await signIn();
    expect((await send('GET', `/v1/preview/models/${id}`, { ...OWN, cookie })).statusCode).toBe(404);
    expect((await send('GET', `/v1/preview/models/${id}`, { ...OWN, cookie: own })).statusCode).toBe(200);
  });

  test('ends with its key, at once', async () => {
    const key = await makeKey(['training']);
    const cookie = await signIn({ key: key.secret });
    const code = await makeLink(`Bearer ${key.secret}`);
    expect((await send('GET', '/v1/preview/models', { ...OWN, cookie })).statusCode).toBe(200);
    await server.store.keys.revoke(key.id);
    expect((await send('GET', '/v1/preview/models', { ...OWN, cookie })).statusCode).toBe(401);
    expect(await whoIs(cookie)).toBeNull();
    expect((await send('POST', '/v1/session', OWN, { code })).statusCode).toBe(401);
  });

  test('ends when the browser signs out, in all its tabs; other browsers stay', async () => {
    const [cookie, other] = [await signIn(), await signIn()];
    const response = await send('DELETE', '/v1/session', { ...OWN, cookie });
    expect(response.headers['set-cookie']).toMatch(/^trainyard_session_8420=; Path=\/; Max-Age=0;/);
    expect(await whoIs(cookie)).toBeNull();
    expect((await send('GET', '/v1/preview/models', { ...OWN, cookie })).statusCode).toBe(401);
    expect(await whoIs(other)).not.toBeNull();
  });

  test('takes its streams with it when it ends, within a second; those of others stay', async () => {
    const other = await TestServer.start();
    await other.app.listen({ host: '127.0.0.1', port: 0 });
    const origin = `http://127.0.0.1:${(other.app.server.address() as AddressInfo).port}`;
    const own = { origin, 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' };
    const begin = async (): Promise<string> => {
      const body = JSON.stringify({ key: other.key });
      const answer = await fetch(`${origin}/v1/session`, { method: 'POST', headers: own, body });
      return answer.headers.get('set-cookie')!.split(';')[0]!;
    };
    const open = (headers: Record<string, string>) =>
      fetch(`${origin}/v1/preview/events`, { headers: { accept: 'text/event-stream', ...headers } });
    const [cookie, lastingCookie] = [await begin(), await begin()];
    const streams = [await open({ ...own, cookie }), await open({ ...own, cookie })];
    const lasting = [
      await open({ ...own, cookie: lastingCookie }),
      await open({ authorization: `Bearer ${other.key}` }),
    ].map((answer) => answer.text());
    await fetch(`${origin}/v1/session`, { method: 'DELETE', headers: { origin, cookie } });
    for (const stream of streams) await expect(stream.text()).rejects.toThrow('terminated');
    await other.close();
    for (const text of lasting) expect(await text).toContain('retry: ');
  });

  test('restarted leaves nothing of the one before', async () => {
    const before = await signIn();
    await send('POST', '/v1/session', { ...OWN, cookie: before }, { key: server.key });
    expect(await whoIs(before)).toBeNull();
  });

  test.each(['', 'x', 'a'.repeat(43), '"; drop', '%00', 'a=b'])(
    'a forged cookie %j gives no session',
    async (value) => {
      const cookie = `trainyard_session_8420=${value}`;
      expect(await whoIs(cookie)).toBeNull();
      expect((await send('GET', '/v1/preview/models', { ...OWN, cookie })).statusCode).toBe(401);
    },
  );

  test('the cookie of a service at another port of this name is not taken for its own', async () => {
    const cookie = (await signIn()).replace('_8420', '_9000');
    expect(await whoIs(cookie)).toBeNull();
  });

  test('a key that is sent comes before it, also a wrong one', async () => {
    const cookie = await signIn();
    const response = await send('GET', '/v1/preview/models', { ...OWN, cookie, authorization: 'Bearer wrong' });
    expect(response.statusCode).toBe(401);
  });
});

describe('other pages cannot use it', () => {
  const foreign: [string, Record<string, string>][] = [
    ['another site', { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }],
    ['another port of this machine', { origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' }],
    ['a browser without Sec-Fetch-Site', { origin: 'http://localhost:3000' }],
    ['an opaque origin', { origin: 'null' }],
    ['a name that starts like ours', { origin: `http://${HOST}.evil.example` }],
    ['a false Sec-Fetch-Site', { origin: `http://${HOST}`, 'sec-fetch-site': 'cross-site' }],
  ];

  test.each(foreign)('%s can neither read nor write with it, nor sign anyone in or out', async (_name, headers) => {
    const cookie = await signIn();
    for (const [method, url] of [
      ['POST', '/v1/session-links'],
      ['GET', '/v1/preview/models'],
      ['DELETE', '/v1/session'],
      ['GET', '/v1/session'],
    ] as const) {
      const response = await send(method, url, { ...headers, cookie });
      expect(response.statusCode, `${method} ${url}`).toBe(403);
      expect(response.json()).toMatchObject({ error: { code: 'request.origin_not_allowed' } });
    }
    expect((await send('POST', '/v1/session', headers, { key: server.key })).statusCode).toBe(403);
    expect(await whoIs(cookie)).not.toBeNull();
  });

  test('a form without any origin writes nothing; a typed address can read', async () => {
    const cookie = await signIn();
    expect((await send('POST', '/v1/session-links', { cookie })).statusCode).toBe(403);
    expect((await send('POST', '/v1/session-links', { cookie, 'sec-fetch-site': 'none' })).statusCode).toBe(403);
    expect((await send('GET', '/v1/preview/models', { cookie, 'sec-fetch-site': 'none' })).statusCode).toBe(200);
  });

  test('no origin is given credentials', async () => {
    const response = await send('GET', '/v1/session', { ...OWN, cookie: await signIn() });
    expect(response.headers['access-control-allow-credentials']).toBeUndefined();
  });
});

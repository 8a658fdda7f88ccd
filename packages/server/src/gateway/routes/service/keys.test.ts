import { request as httpRequest } from 'node:http';

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ApiKeyList, ApiKeyObject, CreatedKeyObject, ErrorBody } from '@trainyard/protocol';
import { makeKeySecret } from '@trainyard/store';

import { createServer } from '../../create-server.ts';
import { TestServer } from '../../../testing/test-server.ts';

vi.setConfig({ testTimeout: 60_000 });

let server: TestServer;
let admin: { authorization: string };
let now: number;
beforeEach(async () => {
  server = await TestServer.start();
  admin = { authorization: `Bearer ${await server.makeKey('acme', ['admin'])}` };
  now = Math.floor(Date.now() / 1000);
});
afterEach(() => server.close());

const create = (body: object, headers: Record<string, string> = {}) =>
  server.request('POST', '/v1/keys', body, { ...admin, ...headers });
const withKey = (secret: string | null, method: 'GET' | 'POST' = 'GET', url = '/v1/models') =>
  server.request(method, url, method === 'POST' ? {} : undefined, { authorization: `Bearer ${secret}` });

test('a key is made for its scopes, shown once, listed and revoked', async () => {
  const response = await create({ name: 'ci', scopes: ['inference', 'inference'] });
  expect(response.statusCode, response.body).toBe(200);
  const { secret, ...key } = response.json<CreatedKeyObject>();
  expect(key).toMatchObject({ name: 'ci', entity: 'acme', scopes: ['inference'], expires_at: null, revoked_at: null });
  expect(secret).toMatch(/^ty-[\w-]{49}$/);
  expect(secret?.startsWith(key.hint ?? 'none')).toBe(true);
  expect((await withKey(secret)).statusCode).toBe(200);
  expect((await withKey(secret, 'POST', '/v1/preview/models')).statusCode).toBe(403);
  expect((await withKey(secret, 'GET', '/v1/keys')).statusCode).toBe(403);

  const list = await server.request('GET', '/v1/keys', undefined, admin);
  expect({ ...list.json<ApiKeyList>().data.at(-1), last_used_at: null }).toEqual(key);
  expect(list.body).not.toContain(secret);

  const revoked = await server.request('DELETE', `/v1/keys/${key.id}`, undefined, admin);
  expect(revoked.json<ApiKeyObject>()).toMatchObject({ id: key.id, revoked_at: expect.any(Number) as number });
  const refused = await withKey(secret);
  expect(refused.statusCode).toBe(401);
  expect(refused.json<ErrorBody>().error.message).toMatch(
    /^The key `ci` was revoked on 20\d\d-\d\d-\d\d at \d\d:\d\d UTC\. Use another one/,
  );
  const again = await server.request('DELETE', `/v1/keys/${key.id}`, undefined, admin);
  expect(again.json()).toEqual(revoked.json());
});

test('a key has the time of its last use, and refused requests are none', async () => {
  const made = async () => (await create({ name: 'ci', scopes: ['inference'] })).json<CreatedKeyObject>();
  const [used, forbidden, revoked, unused] = [await made(), await made(), await made(), await made()];
  expect(used.last_used_at).toBeNull();
  await server.request('DELETE', `/v1/keys/${revoked.id}`, undefined, admin);
  expect((await withKey(used.secret)).statusCode).toBe(200);
  expect((await withKey(forbidden.secret, 'GET', '/v1/keys')).statusCode).toBe(403);
  expect((await withKey(revoked.secret)).statusCode).toBe(401);
  const lastUsed = async (...keys: CreatedKeyObject[]) => {
    const list = (await server.request('GET', '/v1/keys', undefined, admin)).json<ApiKeyList>().data;
    return keys.map(({ id }) => list.find((key) => key.id === id)?.last_used_at);
  };
  await vi.waitFor(async () => expect(await lastUsed(used)).not.toEqual([null]), 30_000);
  const [at] = await lastUsed(used);
  expect(Math.abs((at ?? 0) - now)).toBeLessThan(60);
  expect(await lastUsed(forbidden, revoked, unused)).toEqual([null, null, null]);
});

test('no request waits until the use of its key is written', async () => {
  const { secret, id } = (await create({ name: 'ci', scopes: ['inference'] })).json<CreatedKeyObject>();
  const release = await server.holdWriters();
  const released = new Promise((resolve) => setTimeout(resolve, 1_500)).then(release);
  const first = await Promise.race([withKey(secret).then(({ statusCode }) => statusCode), released]);
  expect(first).toBe(200);
  expect(await server.store.keys.get(id)).toMatchObject({ lastUsedAt: null });
  await released;
  await vi.waitFor(
    async () => expect(await server.store.keys.get(id)).toMatchObject({ lastUsedAt: expect.any(Number) as number }),
    30_000,
  );
});

test('a mistyped key is reported as such', async () => {
  const { secret } = (await create({ name: 'ci', scopes: ['inference'] })).json<CreatedKeyObject>();
  const response = await withKey((secret ?? '').slice(0, -1));
  expect(response.statusCode).toBe(401);
  expect(response.json<ErrorBody>().error.message).toContain('mistyped or truncated');
});

test('a key can have an expiry in the future', async () => {
  const past = await create({ name: 'ci', scopes: ['inference'], expires_at: now - 5 });
  expect([past.statusCode, past.json<ErrorBody>().error.param]).toEqual([422, 'expires_at']);
  const ahead = await create({ name: 'ci', scopes: ['inference'], expires_at: now + 3600 });
  const { secret, expires_at: expiresAt } = ahead.json<CreatedKeyObject>();
  expect(expiresAt).toBe(now + 3600);
  expect((await withKey(secret)).statusCode).toBe(200);
});

test('an ended key is refused with its end, and any other secret reveals nothing', async () => {
  const { id: entityId } = await server.store.keys.ensureEntity('acme');
  const expiresAt = Date.UTC(2025, 0, 2, 3, 4, 5);
  const { secret } = await server.store.keys.create({ entityId, name: 'night', scopes: ['inference'], expiresAt });
  const messageOf = async (key: string) => {
    const response = await withKey(key);
    expect(response.statusCode).toBe(401);
    return response.json<ErrorBody>().error.message;
  };
  const ended = /^The key `night` expired on 2025-01-02 at 03:04 UTC\. Use another one/;
  expect(await messageOf(secret)).toMatch(ended);
  // Well-formed, so that only the database can tell it from a key.
  const unknown = makeKeySecret();
  for (const other of [unknown, 'night', secret.toUpperCase(), secret.slice(0, -1)])
    expect(await messageOf(other)).not.toMatch(/night|expired on|2025/);
  expect(await messageOf(unknown)).toContain('is unknown');
});

test.each([
  [{ scopes: ['inference'] }, 'name'],
  [{ name: 'ci' }, 'scopes'],
  [{ name: 'ci', scopes: [] }, 'scopes'],
  [{ name: 'ci', scopes: ['all'] }, 'scopes.0'],
  [{ name: '', scopes: ['inference'] }, 'name'],
  [{ name: '\ud800', scopes: ['inference'] }, 'name'],
  [{ name: 'ci', scopes: ['inference'], expires_at: 'soon' }, 'expires_at'],
  [{ name: 'ci', scopes: ['inference'], expires_at: 1e16 }, 'expires_at'],
])('%j is refused for %s', async (body, param) => {
  const response = await create(body);
  expect([response.statusCode, response.json<ErrorBody>().error.param]).toEqual([422, param]);
});

test.each(['alice@laptop', 'ci+nightly', 'the build machine', '.'])('a key may be named %j', async (name) => {
  const response = await create({ name, scopes: ['inference'] });
  expect([response.statusCode, response.json<CreatedKeyObject>().name]).toEqual([200, name]);
});

test.each([
  ['team/ci', 'A name cannot contain /, : or control characters, got "team/ci"'],
  ['a:b', 'A name cannot contain /, : or control characters, got "a:b"'],
  ['a\nb', 'A name cannot contain /, : or control characters, got "a\\nb"'],
  ['  ', 'A name cannot be blank'],
])('the name %j is refused with the characters that it cannot contain', async (name, words) => {
  const response = await create({ name, scopes: ['inference'] });
  expect(response.statusCode).toBe(422);
  expect(response.json<ErrorBody>().error.message).toContain(words);
});

test('the same idempotency key makes one key, with its secret only in the first answer and in no record', async () => {
  const headers = { 'idempotency-key': 'make-ci' };
  const first = (await create({ name: 'ci', scopes: ['inference'] }, headers)).json<CreatedKeyObject>();
  const second = await create({ name: 'ci', scopes: ['inference'] }, headers);
  expect(second.json()).toEqual({ ...first, secret: null });
  expect(second.headers['idempotent-replayed']).toBe('true');
  expect((await create({ name: 'other', scopes: ['inference'] }, headers)).statusCode).toBe(422);
});

test('an admin has the keys of its entity; one of the service has those of all', async () => {
  const { store, blobs, inference, training, transfers } = server;
  const theirs = { authorization: `Bearer ${await server.makeKey('other', ['admin'])}` };
  const mine = (await create({ name: 'ci', scopes: ['inference'] })).json<CreatedKeyObject>();
  expect((await create({ name: 'ci', scopes: ['inference'], entity: 'other' })).statusCode).toBe(404);
  expect((await server.request('DELETE', `/v1/keys/${mine.id}`, undefined, theirs)).statusCode).toBe(404);
  const seen = (await server.request('GET', '/v1/keys', undefined, theirs)).json<ApiKeyList>().data;
  expect(new Set(seen.map(({ entity }) => entity))).toEqual(new Set(['other']));

  const app = createServer({
    store,
    blobs,
    inference,
    training,
    exports: transfers,
    imports: transfers,
    operatorEntity: 'acme',
  });
  const asOperator = async (method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object) =>
    app.inject({ method, url, headers: admin, ...(payload ? { payload } : {}) });
  const made = (
    await asOperator('POST', '/v1/keys', { name: 'b', scopes: ['admin'], entity: 'third' })
  ).json<CreatedKeyObject>();
  expect(made.entity).toBe('third');
  const all = (await asOperator('GET', '/v1/keys')).json<ApiKeyList>().data;
  expect(new Set(all.map(({ entity }) => entity))).toEqual(new Set(['acme', 'other', 'third']));
  expect((await asOperator('DELETE', `/v1/keys/${made.id}`)).statusCode).toBe(200);
  await app.close();
});

test('a stream ends when its key is revoked by any process, and continues otherwise', async () => {
  const url = new URL(await server.app.listen({ port: 0, host: '127.0.0.1' }));
  server.inference.script = async function* () {
    yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
    for (;;) {
      yield { kind: 'delta', index: 0, text: 'x', tokenIds: [1], logprobs: null };
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const stream = async (secret: string) => {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
    const outgoing = httpRequest(new URL('/v1/chat/completions', url), { method: 'POST', headers, agent: false });
    outgoing.end(JSON.stringify({ messages: [{ role: 'user', content: 'x' }], stream: true }));
    const state = { numPieces: 0, isEnded: false };
    outgoing.on('error', () => (state.isEnded = true));
    outgoing.on('response', (response) => {
      response.on('data', () => (state.numPieces += 1));
      response.on('error', () => undefined);
      response.on('close', () => (state.isEnded = true));
    });
    await vi.waitFor(() => expect(state.numPieces).toBeGreaterThan(0), 30_000);
    return { state, outgoing };
  };
  const { id, secret } = (await create({ name: 'ci', scopes: ['inference'] })).json<CreatedKeyObject>();
  const doomed = await stream(secret ?? '');
  const other = await stream(server.key);
  // Like another process on the same data folder.
  await server.store.keys.revoke(id);
  await vi.waitFor(() => expect(doomed.state.isEnded).toBe(true), 30_000);
  const before = other.state.numPieces;
  await vi.waitFor(() => expect(other.state.numPieces).toBeGreaterThan(before), 30_000);
  expect(other.state.isEnded).toBe(false);
  other.outgoing.destroy();
});

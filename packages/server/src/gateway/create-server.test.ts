import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type ErrorBody, type Health, OPERATIONS } from '@trainyard/protocol';

import type { RouteScope } from '../seams/faults/route-scope.ts';
import { createServer } from './create-server.ts';
import { TestServer } from '../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ chatBodyBytes: 2000 });
});
afterAll(() => server.close());

describe('routes', () => {
  test('every route declares a scope, and only routes about the service take no key', async () => {
    const { store, blobs, inference, training, transfers } = server;
    const app = createServer({ store, blobs, inference, training, exports: transfers, imports: transfers });
    const scopes = new Map<string, RouteScope | undefined>();
    app.addHook('onSend', async (request) => {
      scopes.set(`${request.method} ${request.routeOptions.url}`, request.routeOptions.config.scope);
    });
    await app.ready();
    // The list is complete: another test compares it with the router.
    for (const { method, paths } of OPERATIONS) {
      for (const path of paths) {
        const url = path.replace('/v1/models/{model}', '/v1/models/*');
        const response = await app.inject({ method: method.toUpperCase() as 'GET', url });
        const name = `${method.toUpperCase()} ${url.replaceAll(/\{(\w+)\}/g, ':$1')}`;
        expect(scopes.get(name), name).toBeDefined();
        expect(response.statusCode === 401, name).toBe(scopes.get(name) !== 'public');
      }
    }
    expect([...scopes].filter(([, scope]) => scope === 'public').map(([name]) => name)).toEqual([
      'GET /v1/session',
      'POST /v1/session',
      'DELETE /v1/session',
      'GET /metrics',
      'GET /livez',
      'GET /readyz',
      'GET /v1/health',
      'GET /health',
      'GET /ping',
      'GET /v1/system-check',
      'GET /v1/version',
      'GET /version',
      'GET /',
      'GET /openapi.json',
      'GET /docs',
    ]);
    await app.close();
  });

  test('a route without a scope cannot be registered', () => {
    const { store, blobs, inference, training, transfers } = server;
    const app = createServer({ store, blobs, inference, training, exports: transfers, imports: transfers });
    expect(() => app.get('/v1/open', () => 'nothing')).toThrow('the route GET /v1/open declares no scope');
  });
});

describe('keys', () => {
  test('a missing and a wrong key are 401 with the way to authenticate', async () => {
    for (const authorization of ['', 'Bearer wrong', `Basic ${server.key}`, server.key]) {
      const response = await server.request('GET', '/v1/models', undefined, { authorization });
      expect(response.statusCode).toBe(401);
      expect(response.headers['www-authenticate']).toBe('Bearer');
      expectBothShapes(response.json(), 'request.unauthenticated');
    }
    const without = await server.app.inject({ url: '/v1/models' });
    expect(without.statusCode).toBe(401);
  });

  test('the scheme is read in any case', async () => {
    const response = await server.request('GET', '/v1/models', undefined, { authorization: `bearer ${server.key}` });
    expect(response.statusCode).toBe(200);
  });

  test('a key is refused before its body is read', async () => {
    const response = await server.request('POST', '/v1/chat/completions', '{not json', {
      authorization: 'Bearer wrong',
    });
    expect(response.statusCode).toBe(401);
  });

  test('a key without the scope is 403, and admin includes every scope', async () => {
    const inferenceOnly = await server.makeKey('acme', ['inference']);
    const forbidden = await server.request(
      'POST',
      '/v1/preview/models',
      {},
      { authorization: `Bearer ${inferenceOnly}` },
    );
    expect(forbidden.statusCode).toBe(403);
    expectBothShapes(forbidden.json(), 'request.forbidden');
    expect(forbidden.json<ErrorBody>().error.message).toContain('`training`');
    const admin = await server.makeKey('acme', ['admin']);
    expect(
      (await server.request('GET', '/v1/models', undefined, { authorization: `Bearer ${admin}` })).statusCode,
    ).toBe(200);
  });
});

describe('requests without a route', () => {
  test('a path that is no URL is 400, with the id of the request', async () => {
    const response = await server.app.inject({ url: '/v1/models/%zz', headers: { 'x-request-id': 'mine' } });
    expect([response.statusCode, response.headers['x-request-id']]).toEqual([400, 'mine']);
  });

  test('an unknown path is 404 in both shapes, without a key and with any body', async () => {
    const response = await server.app.inject({
      method: 'POST',
      url: '/v1/nope',
      payload: '{bad',
      headers: { 'content-type': 'application/json' },
    });
    expect(response.statusCode).toBe(404);
    expect(response.json<ErrorBody>().detail).toBe('Not Found');
    expectBothShapes(response.json(), 'request.not_found');
  });

  test('a known path with another method is 405 with Allow', async () => {
    const chat = await server.request('GET', '/v1/chat/completions');
    expect([chat.statusCode, chat.headers.allow]).toEqual([405, 'POST']);
    expect(chat.json<ErrorBody>().detail).toBe('Method Not Allowed');
    const checkpoints = await server.request('POST', '/v1/preview/models/abc/checkpoints/', {});
    expect([checkpoints.statusCode, checkpoints.headers.allow]).toEqual([405, 'DELETE, GET, HEAD']);
  });
});

describe('bodies', () => {
  test('malformed JSON is 400 with the position', async () => {
    const response = await server.request('POST', '/v1/chat/completions', '{"messages": [},');
    expect(response.statusCode).toBe(400);
    expect(response.json<ErrorBody>().detail).toMatchObject([{ type: 'json_invalid', loc: ['body', 14] }]);
    const cut = await server.request('POST', '/v1/chat/completions', '{"messages": ');
    expect(cut.json<ErrorBody>().detail).toMatchObject([{ type: 'json_invalid', loc: ['body', 13] }]);
  });

  test.each([
    ['', 'missing'],
    ['null', 'dict_type'],
    ['[]', 'dict_type'],
    ['5', 'dict_type'],
    ['{}', 'missing'],
  ])('the body %j is 400 %s', async (body, type) => {
    const response = await server.request('POST', '/v1/chat/completions', body);
    expect(response.statusCode).toBe(400);
    expect(response.json<ErrorBody>().detail).toMatchObject([{ type }]);
  });

  test('a body over the limit is 413 and names the limit', async () => {
    const response = await server.chat({ user: 'x'.repeat(2000) });
    expect(response.statusCode).toBe(413);
    expectBothShapes(response.json(), 'request.body_too_large');
    expect(response.json<ErrorBody>().error.message).toContain('2000 bytes');
  });

  test('another content type is 415; parameters of the right one are fine', async () => {
    const wrong = await server.chat({}, { 'content-type': 'text/plain' });
    expect(wrong.statusCode).toBe(415);
    expectBothShapes(wrong.json(), 'request.unsupported_media_type');
    expect((await server.chat({}, { 'content-type': 'application/json; charset=utf-8' })).statusCode).toBe(200);
  });

  test('a compressed body is 415; `Content-Encoding: identity` is accepted', async () => {
    const compressed = await server.chat({}, { 'content-encoding': 'gzip' });
    expect(compressed.statusCode).toBe(415);
    expectBothShapes(compressed.json(), 'request.unsupported_media_type');
    expect(compressed.json<ErrorBody>().error.message).toContain('(Content-Encoding: gzip)');
    expect((await server.chat({}, { 'content-encoding': 'Identity' })).statusCode).toBe(200);
  });

  test('a key named __proto__ changes nothing', async () => {
    const response = await server.request(
      'POST',
      '/v1/chat/completions',
      '{"messages": [], "__proto__": {"stream": true}}',
    );
    expect(response.statusCode).toBe(200);
    expect(response.headers['content-type']).toContain('application/json');
  });
});

describe('request ids', () => {
  test('the client chooses, else a fresh one is made; errors carry it too', async () => {
    expect((await server.chat({}, { 'x-request-id': 'mine-1' })).headers['x-request-id']).toBe('mine-1');
    expect((await server.chat({}, { 'x-request-id': 'has space' })).headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/);
    expect((await server.request('GET', '/nope')).headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/);
  });
});

describe('health', () => {
  test('is healthy while every part works, else degraded with the reason of each part', async () => {
    const health = async () => {
      const response = await server.app.inject({ url: '/v1/health' });
      return [response.statusCode, response.json<Health>()];
    };
    const parts = {
      database: { is_up: true, reason: null },
      bucket: null,
      engines: { ready: 1, total: 1 },
      trainers: { ready: 1, total: 1 },
      draining: false,
    };
    expect(await health()).toEqual([200, { status: 'healthy', reasons: [], parts }]);
    server.training.healthy = false;
    vi.spyOn(server.store.database, 'problem').mockReturnValueOnce(
      'another process has held the lock of the database for 3 s',
    );
    expect(await health()).toEqual([
      200,
      {
        status: 'degraded',
        parts: { ...parts, trainers: { ready: 0, total: 1 } },
        reasons: [
          { part: 'training', reason: 'it is being started' },
          { part: 'store', reason: 'another process has held the lock of the database for 3 s' },
        ],
      },
    ]);
    const check = await server.app.inject({ url: '/v1/system-check' });
    expect(check.statusCode).toBe(503);
    expect(check.json()).toMatchObject({
      api: true,
      database: true,
      cpu_queue: { success: true, errors: [] },
      gpu_queue: { success: false, errors: ['training is not available'] },
    });
    server.training.healthy = true;
    expect((await server.app.inject({ url: '/v1/system-check' })).statusCode).toBe(200);
  });

  test('has notices for the operator while it stays healthy', async () => {
    const { store, blobs, inference, training, transfers } = server;
    const parts = { store, blobs, inference, training, exports: transfers, imports: transfers };
    const app = createServer({ ...parts, notices: () => ['The clock has stepped.'] });
    const response = await app.inject({ url: '/health' });
    expect(response.json()).toMatchObject({ status: 'healthy', reasons: [], notices: ['The clock has stepped.'] });
    await app.close();
  });
});

describe('failures of the service', () => {
  test('show nothing inside, and are logged', async () => {
    server.inference.script = () => {
      throw new Error('secret path /srv/models');
    };
    const response = await server.chat();
    server.inference.script = () => [];
    expect(response.statusCode).toBe(500);
    expectBothShapes(response.json(), 'internal');
    expect(response.body).not.toContain('secret');
    expect(server.logged.join('\n')).toContain('secret path /srv/models');
  });
});

function expectBothShapes(body: ErrorBody, code: string): void {
  expect(body.error).toMatchObject({ code, message: expect.any(String), type: expect.any(String) });
  expect(body.error).toHaveProperty('param');
  expect(body.detail === body.error.message || Array.isArray(body.detail)).toBe(true);
}

import { Validator } from '@seriousme/openapi-schema-validator';
import { faultStatus, OPERATIONS, type OpenApiDocument } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { createServer } from '../../create-server.ts';
import { HTTP_FAULTS } from '../../../seams/faults/http-faults.ts';
import { answerFault, eventFault, operationOf } from '../../../testing/documented-answers.ts';
import { readEvents, TestServer } from '../../../testing/test-server.ts';

type Specification = Exclude<Parameters<Validator['validate']>[0], string>;

let server: TestServer;
let document: OpenApiDocument;
beforeAll(async () => {
  server = await TestServer.start();
  document = (await server.app.inject({ url: '/openapi.json' })).json();
});
afterAll(() => server.close());

/** Path in the router's form. */
const routeOf = (path: string) => path.replace('/v1/models/{model}', '/v1/models/*').replaceAll(/\{(\w+)\}/g, ':$1');

describe('the OpenAPI document', () => {
  test('is valid by the meta schema of OpenAPI 3.1', async () => {
    const { valid, errors } = await new Validator().validate(JSON.parse(JSON.stringify(document)) as Specification);
    expect(errors).toBeUndefined();
    expect(valid).toBe(true);
  });

  test('has every route of the server with its scope and its body, and no other', async () => {
    const { store, blobs, inference, training, transfers } = server;
    const app = createServer({ store, blobs, inference, training, exports: transfers, imports: transfers });
    const seen = new Map<string, { scope: unknown; body: unknown }>();
    app.addHook('onSend', async ({ method, routeOptions }) => {
      const body = (routeOptions.schema?.body ?? routeOptions.config.body) as { title?: string } | undefined;
      seen.set(`${method} ${routeOptions.url}`, {
        scope: routeOptions.config.scope,
        body: body?.title,
      });
    });
    await app.ready();
    const routes = OPERATIONS.flatMap(({ paths, ...operation }) =>
      paths.map((path) => ({ ...operation, path, url: routeOf(path) })),
    );
    const methods = [...app.printRoutes().matchAll(/\(([A-Z, ]+)\)/g)].flatMap((line) => (line[1] ?? '').split(', '));
    expect(methods.filter((method) => method !== 'HEAD')).toHaveLength(routes.length);
    for (const { method, path, url, scope, body } of routes) {
      const name = `${method.toUpperCase()} ${url}`;
      await app.inject({ method: method.toUpperCase() as 'GET', url: url.replace('*', 'x') });
      expect(seen.get(name), name).toEqual({ scope, body: (body as { title?: string } | undefined)?.title });
      const documented = document.paths[path]?.[method];
      expect(documented?.['x-scope']).toBe(scope);
      expect(documented?.security).toEqual(scope === 'public' ? [] : [{ apiKey: [] }]);
    }
    await app.close();
  });

  test('has a description of every request field', () => {
    const without = OPERATIONS.flatMap(({ body }) => {
      const title = (body as { title?: string } | undefined)?.title;
      const fields = Object.entries((title && document.components.schemas[title]?.['properties']) || {});
      return fields.flatMap(([name, field]) =>
        JSON.stringify(field).includes('"description"') ? [] : [`${title}.${name}`],
      );
    });
    expect(without).toEqual([]);
  });

  test('lists with each status the codes that have it', () => {
    const responses = document.paths['/v1/chat/completions']?.['post']?.responses ?? {};
    expect(Object.keys(responses)).toEqual([
      '200',
      '400',
      '401',
      '403',
      '404',
      '408',
      '409',
      '413',
      '415',
      '422',
      '429',
      '431',
      '500',
      '503',
      '507',
    ]);
    for (const [status, { description }] of Object.entries(responses).slice(1)) {
      const codes = [...description.matchAll(/`([^`]+)`/g)].map((match) => match[1] as keyof typeof HTTP_FAULTS);
      expect(new Set(codes.map((code) => faultStatus(HTTP_FAULTS[code], 'inference')))).toEqual(
        new Set([Number(status)]),
      );
    }
  });
});

describe('answers of the real routes', () => {
  test('an answer with another key, type or status than documented is noticed', () => {
    const operation = operationOf('GET', '/v1/version');
    if (!operation) throw new Error('the version has an operation');
    expect(answerFault(operation, 200, { version: '1' })).toBeNull();
    expect(answerFault(operation, 200, { version: '1', more: 1 })).toContain('additional');
    expect(answerFault(operation, 200, { version: 1 })).toContain('string');
    expect(answerFault(operation, 418, {})).toContain('418');
  });

  // Every other test of a route has the same check: the test server answers 500 to undocumented answers.
  test('are as documented, one for each operation', async () => {
    const id = await server.makeModel('agent');
    const group = { trajectories: [{ reward: 1, messages_and_choices: [] }] };
    const job = await server.request('POST', '/v1/preview/training-jobs', { model_id: id, trajectory_groups: [group] });
    const jobId = job.json<{ id: string }>().id;
    const exported = await server.addExport(id, { 'parity.json': '{}' });
    const adapter = await server.request('POST', '/v1/preview/adapters', {});
    const adapterId = adapter.json<{ id: string }>().id;
    const calls: [Parameters<TestServer['request']>[0], string, unknown?][] = [
      ['GET', '/v1/models'],
      ['GET', '/v1/models/agent'],
      ['POST', '/v1/chat/completions', { messages: [], logprobs: true, top_logprobs: 2, return_token_ids: true }],
      ['POST', '/v1/completions', { prompt: ['ab', 'c'], logprobs: 2, return_token_ids: true }],
      ['POST', '/v1/tokenize', { prompt: 'ab', return_token_strs: true }],
      ['POST', '/detokenize', { tokens: [97, 98] }],
      [
        'POST',
        '/v1/preview/models',
        { project: 'demo', name: 'agent', base_model: 'tiny/base', return_existing: true },
      ],
      ['POST', `/v1/preview/models/${id}/log`, { trajectory_groups: [group], split: 'val' }],
      ['GET', `/v1/preview/models/${id}/checkpoints`],
      ['DELETE', `/v1/preview/models/${id}/checkpoints`, { steps: [7] }],
      ['GET', `/v1/preview/training-jobs/${jobId}`],
      ['GET', `/v1/preview/training-jobs/${jobId}/events`],
      ['POST', `/v1/preview/models/${id}/exports`, { format: 'merged-gguf' }],
      ['GET', `/v1/preview/models/${id}/exports`],
      ['GET', `/v1/preview/models/${id}/exports/${exported.id}`],
      ['GET', `/v1/preview/models/${id}/exports/${exported.id}/files/parity.json`],
      ['DELETE', `/v1/preview/models/${id}/exports/${exported.id}`],
      ['POST', '/v1/preview/adapters', {}],
      ['GET', '/v1/preview/adapters'],
      ['GET', `/v1/preview/adapters/${adapterId}`],
      ['PUT', `/v1/preview/adapters/${adapterId}/files/adapter_config.json`, {}],
      ['POST', `/v1/preview/adapters/${adapterId}/commit`],
      ['DELETE', `/v1/preview/adapters/${adapterId}`],
      ['DELETE', `/v1/preview/models/${id}`],
      ['GET', '/ping'],
      ['GET', '/v1/system-check'],
      ['GET', '/version'],
      ['GET', '/openapi.json'],
      ['GET', '/docs'],
      ['GET', '/'],
    ];
    for (const [method, url, body] of calls) {
      const response = await server.request(method, url, body);
      expect(response.statusCode, `${method} ${url} ${response.body}`).toBe(200);
    }
    expect(server.logged).toEqual([]);
  });

  test.each([
    ['/v1/chat/completions', { messages: [] }],
    ['/v1/completions', { prompt: 'ab', logprobs: 1 }],
  ])('events of %s are as documented', async (url, fields) => {
    const options = {
      stream: true,
      return_token_ids: true,
      n: 2,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    };
    const response = await server.request('POST', url, { ...fields, ...options });
    const operation = operationOf('POST', url);
    if (!operation) throw new Error('it has an operation');
    const { events, isDone } = readEvents(response.body);
    expect(isDone).toBe(true);
    expect(events.length).toBeGreaterThan(2);
    for (const event of events) expect(eventFault(operation, event)).toBeNull();
  });
});

describe('the reference page', () => {
  test('shows each operation with its fields and errors, and loads nothing from elsewhere', async () => {
    const { body, headers } = await server.app.inject({ url: '/docs' });
    expect(headers['content-type']).toBe('text/html; charset=utf-8');
    for (const { id, paths, summary } of OPERATIONS) {
      expect(body).toContain(`id="${id}"`);
      expect(body).toContain(`<code>${paths[0]}</code>`);
      expect(body.replaceAll('&#39;', "'")).toContain(summary);
    }
    for (const word of [
      'temperature',
      'request.unknown_model',
      'scope training',
      'id="schema-TrainingConfig"',
      'epsilon_high',
    ])
      expect(body).toContain(word);
    const targets = [...body.matchAll(/(?:src|href)\s*=\s*"([^"#]+)"/g)].map(([, target = '']) => target);
    expect(targets.filter((target) => !target.startsWith('data:'))).toEqual(['/openapi.json', '/']);
    // Examples are text, and may contain addresses.
    expect(body.replaceAll(/<pre[^>]*>.*?<\/pre>/gs, '')).not.toMatch(/@import|url\(|https?:/);
    expect(headers['content-security-policy']).toMatch(
      /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; img-src data:; /,
    );
  });

  test('a route has the fields of its body with their types, those of its settings too, and an example', async () => {
    const { body } = await server.app.inject({ url: '/docs' });
    const route = /<section id="createTrainingJob".*?<\/section>/s.exec(body)![0].replaceAll(/\s+/g, ' ');
    expect(route).toContain('<code>experimental_config.learning_rate</code>');
    expect(route).toMatch(/number ≥ 0 or <code>&quot;auto&quot;<\/code> or null/);
    expect(route).toContain('<summary>Example</summary>');
    expect(route).toContain('messages_and_choices');
    expect(route).not.toContain('3.4028234663852886e+38');
    const compressed = await server.app.inject({ url: '/docs', headers: { 'accept-encoding': 'gzip' } });
    console.log(`/docs: ${body.length} characters, ${compressed.rawPayload.length} bytes on the wire`);
    expect(compressed.rawPayload.length).toBeLessThan(150_000);
  });

  test('every link leads to a place of the page', async () => {
    const { body } = await server.app.inject({ url: '/docs' });
    const targets = [...body.matchAll(/href="#([^"]+)"/g)].map((match) => match[1]);
    const missing = targets.filter((target) => !body.includes(`id="${target}"`));
    expect(targets.length).toBeGreaterThan(50);
    expect(missing).toEqual([]);
  });
});

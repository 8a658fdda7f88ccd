import type { HostsObject, UsageListObject } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

const usage = async (query = '', headers = {}) =>
  (await server.request('GET', `/v1/preview/usage${query}`, undefined, headers)).json<UsageListObject>();

test('usage is one sum, or grouped by the requested fields, of the own entity', async () => {
  await server.chat();
  await server.chat({}, { 'openai-project': 'team/one' });
  const rival = { authorization: `Bearer ${await server.makeKey('rival', ['inference', 'training'])}` };
  await server.chat({}, rival);
  const [sum] = (await usage()).data;
  expect(sum).toMatchObject({ num_requests: 2 });
  expect(sum?.prompt_tokens).toBeGreaterThan(0);
  expect((await usage('', rival)).data).toMatchObject([{ num_requests: 1 }]);

  const { data } = await usage('?by=project&by=key&by=day&by=kind&by=model');
  const [key] = await server.store.keys.list((await server.store.keys.ensureEntity('acme')).id);
  const common = {
    key_id: key?.id,
    key_name: 'test',
    model: 'tiny/base',
    kind: 'chat',
    day: new Date().toISOString().slice(0, 10),
    num_requests: 1,
  };
  expect(data).toMatchObject([
    { ...common, project: null },
    { ...common, project: 'team/one' },
  ]);
  expect(await usage('?by=model&to=1000')).toEqual({ object: 'list', from: 0, to: 1000, data: [], has_more: false });
  expect((await server.request('GET', '/v1/preview/usage?by=colour')).statusCode).toBe(422);
});

test('usage is filtered by project, key, model and kind; bad filters are refused with their name', async () => {
  await server.chat({}, { 'openai-project': 'team/two' });
  const night = { authorization: `Bearer ${await server.makeKey('acme', ['inference', 'training'])}` };
  await server.chat({}, night);
  const requests = async (query: string) =>
    (await usage(`?${query}`)).data.reduce((sum, { num_requests: count }) => sum + count, 0);
  const all = await requests('');
  const [key] = (await usage('?by=key', night)).data.filter(({ num_requests: count }) => count === 1);
  expect(await requests('project=team%2Ftwo')).toBe(1);
  expect(await requests('project=team')).toBe(0);
  expect(await requests('project=')).toBeLessThan(all);
  expect(await requests(`key=${key!.key_id}`)).toBe(1);
  expect([key!.key_name, await requests('key=test')]).toEqual(['test', all]);
  expect(await requests('key=nobody')).toBe(0);
  expect([await requests('model=TINY'), await requests('model=t%25y')]).toEqual([all, 0]);
  expect([await requests('kind=chat'), await requests('kind=training&kind=completion')]).toEqual([all, 0]);
  expect((await usage('?by=model&fold_steps=true')).data).toMatchObject([{ model: 'tiny/base', num_steps: 0 }]);
  for (const [query, field] of [
    ['kind=sleep', 'kind'],
    ['key=', 'key'],
    ['model=', 'model'],
    [`project=${'x'.repeat(513)}`, 'project'],
    ['fold_steps=perhaps', 'fold_steps'],
  ] as const) {
    const refused = await server.request('GET', `/v1/preview/usage?${query}`);
    expect([refused.statusCode, refused.json<{ error: { param: string } }>().error.param]).toEqual([422, field]);
  }
});

test('only admins see hosts', async () => {
  expect((await server.request('GET', '/v1/preview/hosts')).statusCode).toBe(403);
  const headers = { authorization: `Bearer ${await server.makeKey('acme', ['admin'])}` };
  const hosts = (await server.request('GET', '/v1/preview/hosts', undefined, headers)).json<HostsObject>();
  expect(hosts).toMatchObject({
    version: expect.any(String),
    sampling: { trouble: null, hosts: [{ base_model: 'tiny/base', max_model_len: expect.any(Number) }] },
    training: { trouble: null },
    store: { trouble: null },
  });
});

import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';
import { IGNORED_HEADER } from './ignored-fields.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

const messages = [{ role: 'user', content: 'hello' }];

/** A sampling request of each form. */
const FORMS: Readonly<Record<string, object>> = {
  '/v1/chat/completions': { messages },
  '/v1/completions': { prompt: 'hello', max_tokens: 4 },
  '/v1/responses': { input: 'hello' },
  '/v1/messages': { messages, max_tokens: 4 },
  '/inference/v1/generate': { token_ids: [1, 2], sampling_params: { max_tokens: 4 } },
  '/v1/tokenize': { prompt: 'hello' },
};

async function countOf(handler: string): Promise<number> {
  const { body } = await server.app.inject('/metrics');
  const line = body
    .split('\n')
    .find((one) => one.startsWith('trainyard_ignored_fields_total') && one.includes(handler));
  return Number(line?.split(' ').at(-1) ?? 0);
}

test.each(Object.entries(FORMS))('%s names the fields that it does not know, and counts them', async (path, body) => {
  const before = await countOf(path);
  const plain = await server.request('POST', path, { model: 'tiny/base', ...body });
  expect(plain.statusCode, plain.body).toBe(200);
  expect(plain.headers[IGNORED_HEADER]).toBeUndefined();
  // Null requests nothing; false is ignored by some forms, while others refuse values that request something.
  const other = await server.request('POST', path, {
    model: 'tiny/base',
    ...body,
    temprature: false,
    zzz: 1,
    none: null,
  });
  expect(other.headers[IGNORED_HEADER]).toBe('temprature, zzz');
  expect([200, 400]).toContain(other.statusCode);
  expect(await countOf(path)).toBe(before + 2);
});

test('a stream has the header too', async () => {
  const answer = await server.chat({ stream: true, temprature: 1 });
  expect(answer.headers[IGNORED_HEADER]).toBe('temprature');
});

test('members of known objects are looked at, free objects are not', async () => {
  const answer = await server.chat({
    stream: true,
    stream_options: { include_usage: true, include_all: true },
    chat_template_kwargs: { anything: 1 },
    vllm_xargs: { anything: 1 },
  });
  expect(answer.headers[IGNORED_HEADER]).toBe('stream_options.include_all');
});

test('names that no header can hold are written so that it can, and many are counted', async () => {
  const odd = await server.chat({ 'größe, "x"\n': 1, [`l${'o'.repeat(500)}ng`]: 1 });
  expect(odd.headers[IGNORED_HEADER]).toMatch(/^gr%C3%B6%C3%9Fe%2C%20%22x%22%0A, lo{63}$/);
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`unknown_${index}`, 1]));
  expect((await server.chat(many)).headers[IGNORED_HEADER]).toMatch(/unknown_19, and 980 more$/);
});

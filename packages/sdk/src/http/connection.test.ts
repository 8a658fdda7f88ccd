import { afterEach, expect, test, vi } from 'vitest';

import { Trainyard } from '../client.ts';

/** Answers every request with an empty list, and records URL and key. */
function recorder() {
  const requests: { url: string; key: string | null }[] = [];
  const answer = async (url: string, init?: RequestInit) => {
    requests.push({ url, key: new Headers(init?.headers).get('authorization') });
    return Response.json({ object: 'list', data: [] });
  };
  return { requests, fetch: answer as typeof fetch };
}

afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

test('base URL and key come from the environment unless they are given', async () => {
  const { requests, fetch } = recorder();
  vi.stubEnv('TRAINYARD_BASE_URL', 'http://elsewhere.test/v1/');
  vi.stubEnv('TRAINYARD_API_KEY', 'ty_environment');
  await new Trainyard({ fetch }).servedModels.list();
  await new Trainyard({ fetch, baseUrl: 'http://given.test/v1', apiKey: 'ty_given' }).servedModels.list();
  vi.stubEnv('TRAINYARD_BASE_URL', '');
  await new Trainyard({ fetch }).servedModels.list();
  expect(requests).toEqual([
    { url: 'http://elsewhere.test/v1/models', key: 'Bearer ty_environment' },
    { url: 'http://given.test/v1/models', key: 'Bearer ty_given' },
    { url: 'http://127.0.0.1:8420/v1/models', key: 'Bearer ty_environment' },
  ]);
});

test('without a key it names the remedy', () => {
  vi.stubEnv('TRAINYARD_API_KEY', '');
  expect(() => new Trainyard()).toThrow('No API key: pass `apiKey`, or set TRAINYARD_API_KEY');
});

test.each(['ключ', 'two words', 'line\nend', ''])(
  'the key %j is refused before anything is sent, and not repeated',
  (apiKey) => {
    const message = '`apiKey` must be printable ASCII without spaces';
    expect(() => new Trainyard({ apiKey })).toThrow(new TypeError(message));
  },
);

test('a password in a URL is in no message', () => {
  const baseUrl = 'https://me:secret@h/v1';
  expect(() => new Trainyard({ baseUrl, apiKey: 'k' })).toThrow('got "https://me:…@h/v1"');
});

test('the global fetch is called in the form that browsers require', async () => {
  const { requests, fetch } = recorder();
  vi.stubGlobal('fetch', function (this: unknown, ...request: Parameters<typeof fetch>) {
    if (this !== undefined && this !== globalThis) throw new TypeError('Illegal invocation');
    return fetch(...request);
  });
  await new Trainyard({ baseUrl: 'http://given.test/v1', apiKey: 'ty_given' }).servedModels.list();
  expect(requests).toHaveLength(1);
});

test.each([
  '',
  'nonsense',
  'localhost:8420/v1',
  'ftp://h/v1',
  'http://',
  '/v1',
  'http://h/v1?a=1',
  'http://h/v1#a',
  'http://u@h/v1',
])('the base URL %j is refused with the given value', (baseUrl) => {
  const message = `\`baseUrl\` must be an http or https URL such as http://127.0.0.1:8420/v1, got ${JSON.stringify(baseUrl)}`;
  expect(() => new Trainyard({ baseUrl, apiKey: 'k' })).toThrow(new TypeError(message));
});

test('a base URL without a host belongs to the page, or to the fetch that is given', () => {
  const { fetch } = recorder();
  expect(new Trainyard({ baseUrl: '/v1', apiKey: null, fetch }).baseUrl).toBe('/v1');
  vi.stubGlobal('location', new URL('http://page.test/'));
  expect(new Trainyard({ baseUrl: '/v1', apiKey: null }).baseUrl).toBe('/v1');
});

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { TINKER_PROFILES } from '../profiles/tinker-profiles.ts';
import { HOSTED_LIKE, JSON_LIKE, SKYRL_0_3, SKYRL_0_4 } from '../testing/fake-dialect.ts';
import { FakeTinkerServer } from '../testing/fake-tinker-server.ts';
import { instantClock } from '../testing/instant-clock.ts';
import { contactServer, type ContactOptions } from './server-facts.ts';

let server: FakeTinkerServer;
beforeEach(async () => {
  server = await FakeTinkerServer.start(SKYRL_0_4);
});
afterEach(() => server.close());

const contact = (options: Partial<ContactOptions> = {}) =>
  contactServer({
    url: server.url,
    apiKey: null,
    baseModel: null,
    profile: TINKER_PROFILES.skyrl,
    clock: instantClock(),
    ...options,
  });

test.each([
  [SKYRL_0_4, 'skyrl', 'protobuf', 'gradients'],
  [SKYRL_0_3, 'skyrl', 'json', 'nothing'],
  [HOSTED_LIKE, 'hosted', 'protobuf', 'everything'],
  [HOSTED_LIKE, 'miles', 'protobuf', 'everything'],
  [JSON_LIKE, 'fireworks', 'json', 'nothing'],
] as const)('$0.name is known by how it answers, with the profile %s', async (dialect, profile, wire, remembers) => {
  const other = await FakeTinkerServer.start(dialect);
  try {
    const facts = await contact({ url: `${other.url}/`, apiKey: dialect.key, profile: TINKER_PROFILES[profile] });
    expect(facts).toMatchObject({
      wire,
      baseModel: 'tiny/llama',
      maxDatums: 1024,
      profile: { remembers },
    });
    expect(facts.http.url).toBe(other.url);
    expect(other.executed).toEqual([]);
  } finally {
    await other.close();
  }
});

test('a key is exchanged if a server requires it, and renewed when the token expires', async () => {
  const other = await FakeTinkerServer.start(HOSTED_LIKE);
  try {
    const { http } = await contact({ url: other.url, apiKey: 'tml-right', profile: TINKER_PROFILES.hosted });
    const keysOf = (route: string) =>
      other.seen.filter((one) => one.route === route).map(({ headers }) => headers['x-api-key']);
    expect(keysOf('client/config')).toEqual(['tml-right']);
    expect(keysOf('get_server_capabilities')[0]).toMatch(/^eyJ/);
    await http.sendOnce('GET', 'healthz');
    expect(keysOf('auth/token')).toEqual(['tml-right']);
  } finally {
    await other.close();
  }
});

test.each<[string, Partial<ContactOptions>, string, RegExp]>([
  [
    'nobody answers',
    { url: 'http://127.0.0.1:59873' },
    'remote_unavailable',
    /no Tinker server answers at .* \(ECONNREFUSED\)\. Start it, or correct --trainer-url/,
  ],
  [
    'there is no such name',
    { url: 'http://trainer.invalid' },
    'remote_unavailable',
    /no Tinker server answers at http:\/\/trainer\.invalid \((?:ENOTFOUND|EAI_AGAIN)\)/,
  ],
  [
    'the base model is not there',
    { baseModel: 'Qwen/Qwen3-8B' },
    'remote_refused',
    /does not have the base model Qwen\/Qwen3-8B\. Correct --trainer-model; it has tiny\/llama/,
  ],
  [
    'keys have another prefix',
    { profile: TINKER_PROFILES.hosted, apiKey: 'sk-1' },
    'remote_refused',
    /keys of hosted start with tml-\. Set TRAINYARD_TRAINER_KEY/,
  ],
  [
    'it has no checkpoints',
    { profile: TINKER_PROFILES['open-rl'] },
    'remote_refused',
    /open-rl cannot train for this service: it has no checkpoint routes/,
  ],
])('when %s, one line gives the remedy', async (_what, options, code, message) => {
  const refused = contact(options);
  await expect(refused).rejects.toMatchObject({
    code: `trainer.${code}`,
    message: expect.stringMatching(message) as string,
  });
});

test('a refused key, several models, and another version are reported, too', async () => {
  const other = await FakeTinkerServer.start({ ...HOSTED_LIKE, hasTokens: false });
  try {
    const wrong = contact({ url: other.url, apiKey: 'tml-wrong', profile: TINKER_PROFILES.hosted });
    await expect(wrong).rejects.toMatchObject({
      message: expect.stringMatching(/refuses the key \(HTTP 401\)\. Set TRAINYARD_TRAINER_KEY/) as string,
    });
  } finally {
    await other.close();
  }
  server.models = ['one', 'two'];
  await expect(contact()).rejects.toMatchObject({
    message: expect.stringMatching(
      /has 2 base models\. Choose the matching one with --trainer-model.* it has one, two/,
    ) as string,
  });
  server.models = ['one'];
  server.fault = ({ route }) => (route === 'forward_backward' ? { kind: 'status', status: 405 } : null);
  await expect(contact()).rejects.toMatchObject({
    code: 'trainer.remote_refused',
    message: expect.stringMatching(/has an unsupported version \(HTTP 405 for an empty forward_backward/) as string,
  });
});

test('another program is distinguished from a faulty Tinker server', async () => {
  const web = createServer((_request, response) => void response.writeHead(200).end('<html>'));
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  await expect(contact({ url })).rejects.toMatchObject({
    code: 'trainer.remote_refused',
    message: expect.stringMatching(
      /is not a Tinker server \(HTTP 200 for \/api\/v1\/healthz\)\. --trainer-url is the address without/,
    ) as string,
  });
  await new Promise((resolve) => web.close(resolve));
  server.fault = () => ({ kind: 'status', status: 502 });
  await expect(contact()).rejects.toMatchObject({ code: 'trainer.remote_unavailable', retry: 'wait' });
});

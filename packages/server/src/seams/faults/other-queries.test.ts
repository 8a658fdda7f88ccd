import { type ErrorBody, OPERATIONS, refusesOtherQueries } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
let admin: string;
beforeAll(async () => {
  server = await TestServer.start();
  admin = await server.makeKey('acme', ['admin']);
});
afterAll(() => server.close());

const reading = OPERATIONS.filter(({ method, paths: [path] }) => method === 'get' && refusesOtherQueries(path));

test.each(reading.map(({ id, paths: [path] }) => [id, path] as const))(
  '%s refuses a query parameter that it does not have, by its name',
  async (_id, path) => {
    const url = path.replaceAll(/\{\w+\}/g, 'x');
    const answer = await server.request('GET', `${url}?colour=red`, undefined, { authorization: `Bearer ${admin}` });
    expect(answer.statusCode).toBe(422);
    // The route may also lack a required parameter.
    expect(answer.json<ErrorBody>().detail).toContainEqual(
      expect.objectContaining({
        loc: ['query', 'colour'],
        type: 'extra_forbidden',
        msg: expect.stringContaining('Unknown query parameter') as string,
      }),
    );
  },
);

test('a mistyped parameter is answered with the closest one', async () => {
  const { error } = (await server.request('GET', '/v1/preview/models?limt=5')).json<{ error: { message: string } }>();
  expect(error.message).toContain('did you mean limit?');
});

test('inference routes accept the parameters of clients of other services', async () => {
  const answer = await server.request('POST', '/v1/messages?beta=true', {
    model: 'tiny/base',
    max_tokens: 4,
    messages: [{ role: 'user', content: 'hello' }],
  });
  expect(answer.statusCode).toBe(200);
});

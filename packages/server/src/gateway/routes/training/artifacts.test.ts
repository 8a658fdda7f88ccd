import { createHash } from 'node:crypto';

import type { ArtifactObject, ErrorBody, ListPage } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let rival: string;
beforeAll(async () => {
  server = await TestServer.start({ previewBodyBytes: 20_000 });
  rival = await server.makeKey('rival', ['training']);
});
afterAll(() => server.close());

const PATH = '/v1/preview/artifacts/acme/demo';
const line = (answer: string) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: answer },
    ],
  });

async function upload(body: string, url = `${PATH}/data`, headers: Record<string, string> = {}) {
  return await server.request('POST', url, body, { 'content-type': 'application/jsonl', ...headers });
}

describe('uploads', () => {
  test('each file is the next version of its name, and is known by the sent digest', async () => {
    const text = `${line('é')}\n\n${line('no')}\n`;
    const first = (await upload(text)).json<ArtifactObject>();
    expect(first).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      entity: 'acme',
      project: 'demo',
      name: 'data',
      version: 'v0',
      url: 'wandb-artifact:///acme/demo/data:v0',
      file_name: 'train.jsonl',
      size_bytes: Buffer.byteLength(text),
      num_lines: 2,
      digest: createHash('sha256').update(text).digest('hex'),
      created_at: expect.any(Number) as number,
    });
    const second = (await upload(line('other'), `${PATH}/data?file_name=more.jsonl`)).json<ArtifactObject>();
    expect(second).toMatchObject({ version: 'v1', file_name: 'more.jsonl', num_lines: 1 });
    expect((await server.request('GET', `${PATH}/data/v0`)).json()).toEqual(first);
    expect((await server.request('GET', `${PATH}/data/latest`)).json()).toEqual(second);
    expect((await server.request('GET', `${PATH}/data`)).json<ListPage<ArtifactObject>>().data).toEqual([
      first,
      second,
    ]);
    const page = (await server.request('GET', '/v1/preview/artifacts?limit=1&order=desc')).json<
      ListPage<ArtifactObject>
    >();
    expect(page).toMatchObject({ data: [second], has_more: true });
  });

  test('a name may have 128 characters, also if they need escapes in a path', async () => {
    const name = '好'.repeat(128);
    const made = (await upload(line('a'), `${PATH}/${encodeURIComponent(name)}`)).json<ArtifactObject>();
    expect(made).toMatchObject({ name, version: 'v0' });
    expect((await server.request('GET', `${PATH}/${encodeURIComponent(name)}/v0`)).json()).toEqual(made);
    await server.request('DELETE', `${PATH}/${encodeURIComponent(name)}/v0`);
    const longer = await upload(line('a'), `${PATH}/${encodeURIComponent(name)}x`);
    expect([longer.statusCode, longer.json<ErrorBody>().error.message]).toEqual([
      422,
      expect.stringContaining('1 to 128 characters'),
    ]);
    for (const url of [`/v1/preview/models/${'x'.repeat(5000)}/checkpoints`, `${PATH}/data/${'v'.repeat(5000)}`]) {
      expect((await server.request('GET', url)).statusCode).toBe(404);
    }
  });

  test('the same file again is the same version, and leaves no second blob', async () => {
    const first = (await upload(line('same'), `${PATH}/same`)).json<ArtifactObject>();
    const numBlobs = (await server.blobs.listKeys()).length;
    expect((await upload(line('same'), `${PATH}/same`)).json()).toEqual(first);
    expect(await server.blobs.listKeys()).toHaveLength(numBlobs);
  });

  test('a deleted version is gone with its blob', async () => {
    const { id } = (await upload(line('doomed'), `${PATH}/doomed`)).json<ArtifactObject>();
    const numBlobs = (await server.blobs.listKeys()).length;
    expect((await server.request('DELETE', `${PATH}/doomed/latest`)).json()).toEqual({ id, version: 'v0' });
    expect(await server.blobs.listKeys()).toHaveLength(numBlobs - 1);
    expect((await server.request('DELETE', `${PATH}/doomed/v0`)).statusCode).toBe(404);
    expect((await server.request('GET', `${PATH}/doomed/latest`)).statusCode).toBe(404);
    expect((await upload(line('doomed'), `${PATH}/doomed`)).json()).toMatchObject({ version: 'v1' });
  });

  test.each([
    ['no JSON', `${line('a')}\n{"messages": [}`, ['body', 'line', 2], 'Line is not valid JSON, at position 14'],
    ['no object', '[]', ['body', 'line', 1], 'Input should be a valid dictionary'],
    ['no messages', `\n{"tools": []}`, ['body', 'line', 2, 'messages'], 'Field required'],
    ['empty messages', '{"messages": []}', ['body', 'line', 1, 'messages'], 'List should have at least 1 item'],
    [
      'a message without a role',
      '{"messages": [{"content": "x"}]}',
      ['body', 'line', 1, 'messages', 0, 'role'],
      'Field required',
    ],
    [
      'content that is a number',
      '{"messages": [{"role": "user", "content": 1}]}',
      ['body', 'line', 1, 'messages', 0, 'content'],
      'valid string or a valid list',
    ],
    [
      'an image',
      '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
      ['body', 'line', 1, 'messages', 0, 'content', 0],
      'got image_url',
    ],
    [
      'a text part without text',
      '{"messages": [{"role": "user", "content": [{"type": "text"}]}]}',
      ['body', 'line', 1, 'messages', 0, 'content', 0],
      '`text`, a string',
    ],
    [
      'tools that are no list',
      '{"messages": [{"role": "user"}], "tools": {}}',
      ['body', 'line', 1, 'tools'],
      'valid list',
    ],
    [
      'a tool call without a name',
      '{"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}',
      ['body', 'line', 1, 'messages', 0, 'tool_calls', 0, 'function', 'name'],
      'Field required',
    ],
    [
      'arguments that are no object',
      '{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1"}}]}]}',
      ['body', 'line', 1, 'messages', 0, 'tool_calls', 0, 'function', 'arguments'],
      'JSON object',
    ],
    [
      'deep nesting',
      `{"messages": [{"role": "user", "x": ${'['.repeat(300)}${']'.repeat(300)}}]}`,
      ['body', 'line', 1],
      '256 levels',
    ],
    ['nothing', '\n \n', ['body'], 'at least one conversation'],
  ])('a file with %s is refused with the line, and nothing is kept', async (_name, body, loc, msg) => {
    const numBlobs = (await server.blobs.listKeys()).length;
    const response = await upload(body, `${PATH}/bad`);
    expect([response.statusCode, response.json<ErrorBody>().error.code]).toEqual([422, 'request.invalid']);
    expect(response.json<ErrorBody>().detail).toEqual([
      expect.objectContaining({ loc, msg: expect.stringContaining(msg) as string }),
    ]);
    expect(await server.blobs.listKeys()).toHaveLength(numBlobs);
    expect((await server.request('GET', `${PATH}/bad`)).json()).toMatchObject({ data: [] });
  });

  test('bytes that are no UTF-8 are refused with the line', async () => {
    const response = await server.app.inject({
      method: 'POST',
      url: `${PATH}/bad`,
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'text/plain' },
      payload: Buffer.concat([Buffer.from(`${line('a')}\n`), Buffer.of(0x22, 0xff, 0x22)]),
    });
    expect(response.json<ErrorBody>().error.message).toContain('`line.2`: Line should be UTF-8');
  });

  test('more than the limit, another type, no body, a bad name and a bad file name are refused', async () => {
    const refusals = [
      await upload(`${line('a'.repeat(500))}\n`.repeat(50)),
      await upload(line('a'), undefined, { 'content-type': 'application/json' }),
      await upload(line('a'), `${PATH}/a%3Ab`),
      await upload(line('a'), `${PATH}/data?file_name=train.txt`),
      await server.request('POST', `${PATH}/data`),
    ];
    expect(refusals.map((response) => response.statusCode)).toEqual([413, 415, 422, 422, 422]);
    expect(refusals[1]!.json<ErrorBody>().error.message).toContain('must be application/jsonl, application/x-ndjson');
  });

  test('of another entity everything is 404, as if it were not there', async () => {
    await upload(line('mine'), `${PATH}/mine`);
    const asRival = { authorization: `Bearer ${rival}` };
    const unknown = { ...(await server.request('GET', `${PATH}/mine/v7`)).json<ErrorBody>().error, message: '' };
    for (const response of [
      await server.request('GET', `${PATH}/mine/v0`, undefined, asRival),
      await server.request('DELETE', `${PATH}/mine/v0`, undefined, asRival),
      await server.request('GET', `${PATH}/mine`, undefined, asRival),
      await upload(line('a'), `${PATH}/mine`, asRival),
    ]) {
      expect(response.statusCode).toBe(404);
      expect({ ...response.json<ErrorBody>().error, message: '' }).toEqual(unknown);
    }
    expect((await server.request('GET', '/v1/preview/artifacts', undefined, asRival)).json()).toMatchObject({
      data: [],
    });
  });

  test('a key needs the scope', async () => {
    const authorization = `Bearer ${await server.makeKey('acme', ['inference'])}`;
    expect((await upload(line('a'), undefined, { authorization })).statusCode).toBe(403);
  });
});

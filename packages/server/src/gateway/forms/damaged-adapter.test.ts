import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { ErrorBody } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { failure } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';

const FILES = ['adapter_config.json', 'adapter_model.safetensors', 'adapter.gguf'] as const;

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

/** A model with one trained step, whose files have their digests. @returns the folder of the step */
async function trainedModel(name: string): Promise<string> {
  const modelId = await server.makeModel(name);
  const directoryKey = `checkpoints/${crypto.randomUUID()}`;
  const staged = await server.blobs.stageDirectory();
  const contents = FILES.map((file) => [file, `${name}: ${file}`.repeat(50)] as const);
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
  for (const [file, content] of contents) writeFileSync(join(staged, file), content);
  const sums = contents.map(([file, content]) => `${sha256(content)}  ${file}\n`);
  writeFileSync(join(staged, 'SHA256SUMS'), sums.join(''));
  await server.blobs.commitDirectory(staged, directoryKey);
  await server.store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: `groups/${crypto.randomUUID()}` });
  const job = (await server.store.jobs.claim('test', 60_000))!;
  const digest = sha256(contents[1]![1]);
  await server.store.jobs.succeed(job.id, job.fencingToken, { directoryKey, digest, metrics: {} });
  return (await server.blobs.localDirectory(directoryKey))!;
}

const messages = [{ role: 'user', content: 'hi' }];
const FORMS: [string, object][] = [
  ['/v1/chat/completions', { messages }],
  ['/v1/chat/completions', { messages, stream: true }],
  ['/v1/completions', { prompt: 'hi' }],
  ['/v1/responses', { input: 'hi' }],
  ['/v1/messages', { messages, max_tokens: 4 }],
  ['/inference/v1/generate', { token_ids: [1], sampling_params: { max_tokens: 4 } }],
];

test.each(FILES)('a flipped bit in %s is one clear error in every form, and other models answer', async (file) => {
  const name = `agent-${FILES.indexOf(file)}`;
  const folder = await trainedModel(name);
  await trainedModel(`other-${name}`);
  const ask = (model: string) =>
    Promise.all(FORMS.map(([path, body]) => server.request('POST', path, { ...body, model })));
  for (const { statusCode, body } of await ask(name)) expect([statusCode, body]).toEqual([200, expect.anything()]);
  const path = join(folder, file);
  const whole = readFileSync(path);
  const damaged = Buffer.from(whole);
  damaged[20]! ^= 2;
  writeFileSync(path, damaged);
  const numAsked = server.inference.requests.length;
  for (const { statusCode, headers, body } of await ask(name)) {
    expect([statusCode, headers['x-should-retry']]).toEqual([500, 'false']);
    expect(body).toContain(`/${name}:step1\``);
    expect(body).toContain(`${file} is damaged: its SHA-256 is `);
    expect(body).toContain('Restore them from a backup, or delete');
    expect(body).not.toContain(folder);
  }
  expect(server.inference.requests).toHaveLength(numAsked);
  for (const { statusCode } of await ask(`other-${name}`)) expect(statusCode).toBe(200);
  for (const { statusCode } of await ask('tiny/base')) expect(statusCode).toBe(200);
  writeFileSync(path, whole);
  for (const { statusCode } of await ask(name)) expect(statusCode).toBe(200);
});

test('damage that an engine finds when it loads the adapter names the step, too', async () => {
  await trainedModel('loaded');
  const { script } = server.inference;
  server.inference.script = () => [failure('engine.adapter_damaged', 'adapter.gguf is damaged: it is missing', null)];
  const answer = await server.chat({ model: 'loaded' });
  server.inference.script = script;
  expect(answer.statusCode).toBe(500);
  expect(answer.json<ErrorBody>().error).toMatchObject({
    code: 'engine.adapter_damaged',
    message: expect.stringMatching(/`acme\/demo\/loaded:step1` are damaged: adapter\.gguf is damaged: it is missing\./),
  });
});

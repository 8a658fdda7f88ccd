import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ErrorBody, TrainingJobObject } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';
import { readSftExamples } from '../../../training-data/stored/sft-blob.ts';
import { sftJob } from '../../../jobs/kinds/sft.ts';
import { type SftJobConfig, shownUrl } from '../../../training-data/wire/sft-config.ts';

let server: TestServer;
let modelId: string;
let folder: string;
let outside: string;

const line = (answer: string) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: answer },
    ],
    extra: 1,
  });
const DATA = ['a', 'b', 'c', 'd', 'e'].map(line).join('\n');
const dataUrl = (text: string) => `data:application/jsonl;base64,${Buffer.from(text).toString('base64')}`;

beforeAll(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-sft-'));
  folder = join(directory, 'data');
  outside = join(directory, 'outside.jsonl');
  await mkdir(join(folder, 'below'), { recursive: true });
  await mkdir(join(directory, 'data-beside'));
  await writeFile(outside, DATA);
  await writeFile(join(directory, 'data-beside', 'x.jsonl'), DATA);
  await writeFile(join(folder, 'below', 'one two.jsonl'), DATA);
  await writeFile(join(folder, 'secret.txt'), DATA);
  await mkdir(join(folder, 'folder.jsonl'));
  await symlink(outside, join(folder, 'link.jsonl'));
  await symlink(directory, join(folder, 'up'));
  await symlink(join('below', 'one two.jsonl'), join(folder, 'inner.jsonl'));
  server = await TestServer.start({}, folder);
  modelId = await server.makeModel('agent');
});
afterAll(async () => {
  await server.close();
  await rm(join(folder, '..'), { recursive: true });
});

async function create(url: string, body: object = {}, headers: Record<string, string> = {}) {
  const fields = { model_id: modelId, training_data_url: url, config: null, ...body };
  return await server.request('POST', '/v1/preview/sft-training-jobs', fields, headers);
}

async function created(
  url: string,
  body: object = {},
): Promise<{ job: TrainingJobObject; config: SftJobConfig; lines: unknown[] }> {
  const response = await create(url, body);
  expect(response.statusCode, response.body).toBe(200);
  const job = response.json<TrainingJobObject>();
  const row = await server.store.jobs.get(job.id);
  if (row?.kind !== 'sft') throw new Error('the job has a row');
  const lines = await Array.fromAsync(server.blobs.getJsonLines(row.dataKey));
  return { job, config: row.config as unknown as SftJobConfig, lines };
}

test('a job shows its file without secrets, and its first conversations', async () => {
  const { job, lines } = await created(`${dataUrl(DATA)}`);
  expect(job.training_data).toEqual({ url: 'data:application/jsonl;base64,…', num_lines: 5, held_out: null });
  const read = async (query: string) => {
    const response = await server.request('GET', `/v1/preview/training-jobs/${job.id}/examples${query}`);
    return response.json<{ data: unknown[] }>().data;
  };
  expect(await read('')).toEqual(lines.slice(0, 3));
  expect(await read('?limit=20')).toEqual(lines);
  expect(shownUrl('https://user:secret@host/a/b.jsonl?X-Amz-Signature=1')).toBe('https://host/a/b.jsonl');
  expect(shownUrl('wandb-artifact:///local/support/facts:v0')).toBe('wandb-artifact:///local/support/facts:v0');
});

describe('held-out data', () => {
  test('of their own follow the training data, as many as asked for, and are no examples', async () => {
    const held = ['x', 'y', 'z'].map(line).join('\n');
    const { job, lines, config } = await created(dataUrl(DATA), {
      held_out_data_url: dataUrl(held),
      experimental_config: { held_out_examples: 2, held_out_every: 7 },
    });
    expect(lines.map((one) => (one as { messages: { content: string }[] }).messages[1]?.content).join('')).toBe(
      'abcdexy',
    );
    const url = 'data:application/jsonl;base64,…';
    expect(job.training_data).toEqual({ url, num_lines: 5, held_out: { url, num_lines: 3, num_used: 2 } });
    expect(job.config).toMatchObject({ held_out_examples: 2, held_out_every: 7, held_out_fraction: null });
    expect(job.changed_config_keys).toEqual(['held_out_examples', 'held_out_every']);
    expect(sftJob({ ...config.resolved }, (config as { source?: unknown }).source)).toMatchObject({
      heldOut: { from: 'own_data', numLines: 5 },
    });
    const answer = await server.request('GET', `/v1/preview/training-jobs/${job.id}/examples?limit=20`);
    expect(answer.json<{ data: unknown[] }>().data).toEqual(lines.slice(0, 5));
  });

  test('may be a share of the training data, which then makes fewer batches', async () => {
    const rates = [1, 2, 3, 4].map((rate) => rate / 1000);
    const { job, lines, config } = await created(dataUrl(DATA), {
      config: { batch_size: 1, learning_rate: rates },
      experimental_config: { held_out_fraction: 0.3 },
    });
    expect(lines).toHaveLength(5);
    expect(job.training_data?.held_out).toEqual({ url: null, num_lines: 2, num_used: 2 });
    expect(job.ignored_config_keys).toEqual(['learning_rate[3:]']);
    expect(sftJob({ ...config.resolved }, (config as { source?: unknown }).source)).toMatchObject({
      heldOut: { from: 'training_data', numLines: 5 },
    });
  });

  test.each<[string, object, (string | number)[], string]>([
    [
      'both',
      { held_out_data_url: dataUrl(DATA), experimental_config: { held_out_fraction: 0.1 } },
      ['body', 'held_out_data_url'],
      'Send either `held_out_data_url` or `held_out_fraction`, not both',
    ],
    [
      'a share of all lines',
      { experimental_config: { held_out_fraction: 0.95 } },
      ['body', 'experimental_config', 'held_out_fraction'],
      '`held_out_fraction` 0.95 leaves nothing to train of 5 conversations',
    ],
    ['an empty file', { held_out_data_url: dataUrl('\n') }, ['body', 'held_out_data_url'], 'at least one conversation'],
    ['no such file', { held_out_data_url: 'file:nowhere.jsonl' }, ['body', 'held_out_data_url'], 'No such .jsonl file'],
    [
      'an invalid line behind those that are used',
      { held_out_data_url: dataUrl(`${DATA}\n{"messages":[]}`), experimental_config: { held_out_examples: 1 } },
      ['body', 'held_out_data_url', 'line', 6, 'messages'],
      'at least 1 item',
    ],
  ])('%s is refused, and nothing is queued', async (_name, body, loc, message) => {
    const before = await server.store.jobs.list({ modelId, limit: 100 });
    const response = await create(dataUrl(DATA), body);
    expect(response.statusCode, response.body).toBe(422);
    expect(response.json<ErrorBody & { detail: unknown[] }>().detail[0]).toMatchObject({
      loc,
      msg: expect.stringContaining(message) as string,
    });
    expect((await server.store.jobs.list({ modelId, limit: 100 })).items).toHaveLength(before.items.length);
  });
});

test('object arguments become texts if parsing would lose something, and infinite numbers are refused', async () => {
  const messages = (args: string) =>
    `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":${args}}}]}]}`;
  const written = '{"b":1.0,"10":12345678901234567890}';
  const { lines } = await created(dataUrl([messages(written), messages('{"a":"1.0"}')].join('\n')));
  expect(lines.map((one) => JSON.stringify(one))).toEqual([messages(JSON.stringify(written)), messages('{"a":"1.0"}')]);
  const refused = await create(dataUrl(messages('{"x":1e400}')));
  expect([refused.statusCode, refused.body]).toEqual([422, expect.stringContaining('finite number')]);
});

test('tools and variables of a template are trained with the numbers and keys that Python reads in them', async () => {
  const written = '{"b":1.0,"10":12345678901234567890,"2":1e-7}';
  const tools = `[{"type":"function","function":{"name":"f","parameters":${written}},"cost":2.0}]`;
  const line = `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}],"tools":${tools},"chat_template_kwargs":{"v":${written}}}`;
  const { job } = await created(dataUrl(line));
  const row = await server.store.jobs.get(job.id);
  const [example] = await Array.fromAsync(readSftExamples(server.blobs, row!.dataKey!));
  const python = new Map<string, unknown>([
    ['b', Object(1)],
    ['10', 12345678901234567890n],
    ['2', Object(1e-7)],
  ]);
  expect(example!.tools).toStrictEqual([
    { type: 'function', function: { name: 'f', parameters: python }, cost: Object(2) as unknown },
  ]);
  expect(example!.templateVariables).toStrictEqual({ v: python });
});

test('numbers in arguments that only Python reads are taken, and other text is refused', async () => {
  const messages = (args: string) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: 'x' },
        {
          role: 'assistant',
          content: '',
          tool_calls: [{ id: '1', type: 'function', function: { name: 'f', arguments: args } }],
        },
      ],
    });
  const { lines } = await created(dataUrl(messages('{"x": [NaN, -Infinity]}')));
  expect(lines.map((one) => JSON.stringify(one))).toEqual([messages('{"x": [NaN, -Infinity]}')]);
  for (const args of ['NaN', '{"x": -NaN}', '{"x": nan}']) {
    const refused = await create(dataUrl(messages(args)));
    expect([refused.statusCode, refused.body]).toEqual([
      422,
      expect.stringContaining('JSON object, or a string with one'),
    ]);
  }
});

test('a call in the form of LangChain is kept as that of a chat', async () => {
  const turn = (call: string) =>
    `{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[${call}]}]}`;
  const theirs = '{"name":"f","args":{"b":1.0},"id":"1","type":"tool_call"}';
  const chats = (args: string) => `{"id":"1","type":"function","function":{"name":"f","arguments":${args}}}`;
  const { lines } = await created(dataUrl([turn(theirs), turn(theirs.replace('1.0', '2'))].join('\n')));
  expect(lines.map((one) => JSON.stringify(one))).toEqual([
    turn(chats(JSON.stringify('{"b":1.0}'))),
    turn(chats('{"b":2}')),
  ]);
});

async function refused(url: string, body: object = {}): Promise<{ status: number; code: string; message: string }> {
  const before = await server.blobs.listKeys();
  const response = await create(url, body);
  const { code, message } = response.json<ErrorBody>().error;
  expect(await server.blobs.listKeys()).toEqual(before);
  return { status: response.statusCode, code, message };
}

describe('a supervised job', () => {
  test('is a training job like any other, with its own copy of the data', async () => {
    const numNotified = server.training.numNotified;
    const { job, config, lines } = await created(dataUrl(DATA));
    expect(job).toMatchObject({ model_id: modelId, status: 'queued', ignored_config_keys: [] });
    expect(lines).toHaveLength(5);
    expect(lines[0]).toEqual({
      messages: [
        { role: 'user', content: 'hi' },
        { role: 'assistant', content: 'a' },
      ],
    });
    expect(config.resolved).toMatchObject({ batchSize: 2, learningRate: 'auto', epochs: 1, assistantTurns: 'all' });
    expect(server.training.numNotified).toBe(numNotified + 1);
    expect((await server.request('GET', `/v1/preview/training-jobs/${job.id}`)).json()).toEqual(job);
    const events = await server.request('GET', `/v1/preview/training-jobs/${job.id}/events`);
    expect(events.json()).toMatchObject({ data: [], has_more: false });
  });

  test('accepts every setting, and names the ignored ones', async () => {
    const { job, config } = await created(dataUrl(DATA), {
      config: {
        batch_size: 'auto',
        learning_rate: [1, 2, 3, 4],
        assistant_turns: 'last',
        metric_logging: { x: 1 },
        colour: 1,
      },
      experimental_config: { epochs: null, packing: false, shape: 2 },
    });
    expect(job.ignored_config_keys).toEqual(['colour', 'experimental_config.shape', 'learning_rate[3:]']);
    expect(config.resolved).toMatchObject({
      batchSize: 2,
      learningRate: [1, 2, 3, 4],
      assistantTurns: 'last',
      packing: false,
    });
    const second = await created(dataUrl(DATA), {
      config: { batch_size: 5, learning_rate: 1e-3 },
      experimental_config: { epochs: 3, schedule: 'cosine', warmup_steps: 1, min_learning_rate: 1e-4 },
    });
    expect(second.config.resolved).toMatchObject({
      batchSize: 5,
      learningRate: 1e-3,
      epochs: 3,
      learningRateSchedule: 'cosine',
      learningRateWarmupSteps: 1,
      learningRateMinimum: 1e-4,
    });
  });

  test.each<[string, object, string, string]>([
    ['batch_size 0', { config: { batch_size: 0 } }, 'request.invalid', 'greater than or equal to 1'],
    ['batch_size "big"', { config: { batch_size: 'big' } }, 'request.invalid', 'config.batch_size'],
    ['a negative rate', { config: { learning_rate: -1 } }, 'request.invalid', 'greater than or equal to 0'],
    ['a rate that is text', { config: { learning_rate: 'fast' } }, 'request.invalid', 'config.learning_rate'],
    [
      'too few rates',
      { config: { learning_rate: [1, 2] } },
      'trainer.config_invalid',
      'or one for each of the 3 batches, got 2',
    ],
    [
      'too few rates for two epochs',
      { config: { learning_rate: [1, 2, 3] }, experimental_config: { epochs: 2 } },
      'trainer.config_invalid',
      'each of the 6 batches, got 3',
    ],
    [
      'a rate beyond single precision',
      { config: { learning_rate: 1e39 } },
      'request.invalid',
      'less than or equal to 3.4028234663852886e+38, got 1e+39',
    ],
    [
      'a list with such a rate',
      { config: { learning_rate: [1, 1, 1, 1, 1, 1e39] } },
      'request.invalid',
      'less than or equal to 3.4028234663852886e+38, got 1e+39',
    ],
    [
      'a minimum beyond single precision',
      { experimental_config: { min_learning_rate: 1e39 } },
      'request.invalid',
      'less than or equal to 3.4028234663852886e+38, got 1e+39',
    ],
    ['another turn', { config: { assistant_turns: 'first' } }, 'request.invalid', "'all' or 'last'"],
    ['one and a half epochs', { experimental_config: { epochs: 1.5 } }, 'request.invalid', 'valid integer'],
    [
      'a thousand and one epochs',
      { experimental_config: { epochs: 1001 } },
      'request.invalid',
      'less than or equal to 1000',
    ],
    [
      'another schedule',
      { experimental_config: { schedule: 'step' } },
      'request.invalid',
      "'constant', 'linear' or 'cosine'",
    ],
    [
      'a schedule of a list',
      { config: { learning_rate: [1, 2, 3] }, experimental_config: { schedule: 'linear' } },
      'trainer.config_invalid',
      'schedule',
    ],
    [
      'a minimum above the rate',
      { config: { learning_rate: 5e-5 }, experimental_config: { min_learning_rate: 1 } },
      'trainer.config_invalid',
      '`min_learning_rate` must be a finite number in [0, 0.00005], got 1',
    ],
    [
      'a minimum of a rate that is not known yet',
      { experimental_config: { min_learning_rate: 1e-5 } },
      'trainer.config_invalid',
      '`min_learning_rate` requires a number as `learning_rate`, got auto',
    ],
  ])('%s is refused before there is a job', async (_name, body, code, message) => {
    expect(await refused(dataUrl(DATA), body)).toEqual({
      status: 422,
      code,
      message: expect.stringContaining(message) as string,
    });
  });

  test('a bad line is refused with its number and the reason', async () => {
    expect(await refused(dataUrl(`${line('a')}\n\n{"messages": 1}`))).toEqual({
      status: 422,
      code: 'request.invalid',
      message: '`training_data_url.line.3.messages`: Input should be a valid list, got 1',
    });
  });

  test.each<[string, object, string]>([
    [
      'a weight between 0 and 1',
      { weight: 0.5 },
      '`training_data_url.line.1.messages.1.weight`: Input should be 0 or 1',
    ],
    ['a weight that is text', { weight: '0' }, '`training_data_url.line.1.messages.1.weight`: Input should be 0 or 1'],
    [
      'a call of the older form',
      { content: null, function_call: { name: 'f', arguments: '{}' } },
      '`training_data_url.line.1.messages.1.function_call`: Input should be null or absent: put the call into `tool_calls`',
    ],
  ])('%s is refused', async (_name, more, message) => {
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'a', ...more },
    ];
    const answer = await refused(dataUrl(JSON.stringify({ messages })));
    expect(answer).toMatchObject({ status: 422, message: expect.stringContaining(message) });
  });

  test('the weight of a message is kept for training', async () => {
    const messages = [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'a', weight: 0, function_call: null },
    ];
    const { lines } = await created(dataUrl(JSON.stringify({ messages })));
    expect(lines).toEqual([{ messages }]);
  });

  test('an unknown model is 404, also another entity’s', async () => {
    const authorization = `Bearer ${await server.makeKey('rival', ['training'])}`;
    expect((await create(dataUrl(DATA), { model_id: 'nope' })).statusCode).toBe(404);
    expect((await create(dataUrl(DATA), {}, { authorization })).statusCode).toBe(404);
  });

  test('the same Idempotency-Key makes one job', async () => {
    const headers = { 'idempotency-key': 'once' };
    const first = await create(dataUrl(DATA), {}, headers);
    const again = await create(dataUrl(DATA), {}, headers);
    expect(again.body).toBe(first.body);
    expect(again.headers['idempotent-replayed']).toBe('true');
  });
});

describe('where the data may be', () => {
  test('uploaded: by version, latest, or without one', async () => {
    const path = '/v1/preview/artifacts/acme/demo/data';
    for (const text of [DATA, line('newer')])
      await server.request('POST', path, text, { 'content-type': 'application/x-ndjson' });
    const numLines = async (name: string) => (await created(name)).lines.length;
    expect(await numLines('wandb-artifact:///acme/demo/data:v0')).toBe(5);
    expect(await numLines('wandb-artifact:///acme/demo/data:latest')).toBe(1);
    expect(await numLines('wandb-artifact:///acme/demo/data')).toBe(1);
    const { job } = await created('wandb-artifact:///acme/demo/data:v0');
    await server.request('DELETE', `${path}/v0`);
    // The job keeps its data.
    expect(await Array.fromAsync(server.blobs.getJsonLines(`sft/${job.id}`))).toHaveLength(5);
    expect((await refused('wandb-artifact:///acme/demo/data:v0')).message).toContain('does not exist');
  });

  test('of another entity an artifact does not exist', async () => {
    const authorization = `Bearer ${await server.makeKey('rival', ['training'])}`;
    const headers = { 'content-type': 'text/plain', authorization };
    const upload = await server.request('POST', '/v1/preview/artifacts/rival/demo/theirs', DATA, headers);
    expect(upload.statusCode).toBe(200);
    const theirs = await refused('wandb-artifact:///rival/demo/theirs:v0');
    const nobodys = await refused('wandb-artifact:///rival/demo/nothing:v0');
    expect({ ...theirs, message: theirs.message.replace('theirs', 'nothing') }).toEqual(nobodys);
    expect(theirs.status).toBe(422);
  });

  test('percent-encoded or base64 in the URL itself', async () => {
    expect((await created(`data:,${encodeURIComponent(line('é'))}`)).lines).toEqual([
      {
        messages: [
          { role: 'user', content: 'hi' },
          { role: 'assistant', content: 'é' },
        ],
      },
    ]);
    expect((await created(dataUrl(line('é')))).lines).toHaveLength(1);
  });

  test('in the folder of the service', async () => {
    for (const url of [
      'file:below/one%20two.jsonl',
      'file:below/../below/one%20two.jsonl',
      `file://${folder}/below/one%20two.jsonl`,
      `file://localhost${folder}/below/one%20two.jsonl`,
      'file:inner.jsonl',
    ])
      expect((await created(url)).lines, url).toHaveLength(5);
  });

  test.each([
    'file:../outside.jsonl',
    'file:below/../../outside.jsonl',
    'file:%2e%2e/outside.jsonl',
    'file:..%2foutside.jsonl',
    'file:link.jsonl',
    'file:up/outside.jsonl',
    'file:up/data-beside/x.jsonl',
    'file:../data-beside/x.jsonl',
    'file:secret.txt',
    'file:folder.jsonl',
    'file:missing.jsonl',
    'file:///etc/passwd',
    'file://elsewhere/x.jsonl',
    'file:////etc/x.jsonl',
    'file:x%00.jsonl',
    'file:%zz.jsonl',
    'file:',
  ])('%s is not below the folder', async (url) => {
    expect(await refused(url)).toEqual({
      status: 422,
      code: 'request.invalid',
      message: '`training_data_url`: No such .jsonl file in the folder for `file:` URLs',
    });
    expect((await refused(`file://${outside}`)).message).toContain('No such .jsonl file');
  });

  test('without a folder no file is read', async () => {
    const plain = await TestServer.start();
    const id = await plain.makeModel('agent');
    const fields = { model_id: id, training_data_url: `file://${folder}/inner.jsonl` };
    const response = await plain.request('POST', '/v1/preview/sft-training-jobs', fields);
    expect([response.statusCode, response.json<ErrorBody>().error.message]).toEqual([
      422,
      '`training_data_url`: This service has no folder for `file:` URLs',
    ]);
    await plain.close();
  });

  test.each<[string, string]>([
    ['https://example.org/train.jsonl', 'URL should be'],
    ['http://127.0.0.1:1/train.jsonl', 'URL should be'],
    ['s3://bucket/train.jsonl', 'URL should be'],
    ['train.jsonl', 'URL should be'],
    ['wandb-artifact:///acme/demo', 'URL should be'],
    ['wandb-artifact:///acme/demo/data:v0/train.jsonl', 'URL should be'],
    ['wandb-artifact:///acme/demo/data:v-1', 'URL should be'],
    ['wandb-artifact:///acme/demo/nothing:v0', 'does not exist'],
    ['data:text/plain', 'comma'],
    ['data:;base64,%%%', 'percent-encoded'],
    ['data:;base64,?', 'valid base64'],
    ['data:,', 'at least one conversation'],
    [`data:,${'x'.repeat(4_000_001)}`, 'at most 4000000 bytes'],
  ])('%.60s is refused at once', async (url, message) => {
    expect(await refused(url)).toEqual({
      status: 422,
      code: 'request.invalid',
      message: expect.stringContaining(message) as string,
    });
  });
});

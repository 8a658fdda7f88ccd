/**
 * The newest unmodified clients of the inference routes, each with its own form of requests, with comments
 * before all events of their streams.
 */
import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { commentedStreams } from '../support/commented-streams.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TIMEOUT_MS = 600_000;
const REAL_MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';

const hasPython = await hasPythonEnvironment(ROOT, 'clients');
if (!hasPython && process.env['CI'] !== undefined) {
  throw new Error('CI must run the Python clients: "node scripts/bootstrap.mjs --python" shows the reason');
}

let scripted: ScriptedServiceProcess;
let commented: Awaited<ReturnType<typeof commentedStreams>>;
beforeAll(async () => {
  scripted = await scriptedService();
  commented = await commentedStreams(scripted.url);
}, TIMEOUT_MS);
afterAll(async () => {
  commented.close();
  await scripted.close();
});

describe('the unmodified openai client (Node)', () => {
  const tool = {
    type: 'function' as const,
    name: 'weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
    strict: false,
  };
  const client = () => new OpenAI({ baseURL: commented.url, apiKey: scripted.apiKey, maxRetries: 0 });

  it('samples responses, whole and streamed, with calls', async () => {
    const { responses } = client();
    const ask = { model: scripted.model, input: 'The weather in Zürich and Rome?', tools: [tool], store: false };
    const whole = await responses.create(ask);
    const calls = whole.output.filter((item) => item.type === 'function_call');
    expect(calls.map((call) => JSON.parse(call.arguments) as unknown)).toEqual([{ city: 'Zürich' }, { city: 'Rome' }]);
    const streamed = await responses.stream(ask).finalResponse();
    expect(streamed.output.map(({ type }) => type)).toEqual(whole.output.map(({ type }) => type));
    expect(streamed.output_text).toBe(whole.output_text);
    expect((await responses.create({ ...ask, tools: [], input: 'Good day' })).output_text).toBe('Hello to you.');
  });

  it('skips comments between the chunks of a chat', async () => {
    const before = commented.numComments();
    const stream = await client().chat.completions.create({
      model: scripted.model,
      messages: [{ role: 'user', content: 'Good day' }],
      stream: true,
    });
    let text = '';
    let numChunks = 0;
    for await (const { choices } of stream) {
      numChunks += 1;
      text += choices[0]?.delta.content ?? '';
    }
    expect(text).toBe('Hello to you.');
    // One before each chunk, and one before the end.
    expect(commented.numComments() - before).toBe(numChunks + 1);
  });

  it('raises its own errors', async () => {
    const { responses, embeddings } = client();
    const ask = { model: scripted.model, input: 'x' };
    await expect(responses.create({ ...ask, previous_response_id: 'resp_none' })).rejects.toMatchObject({
      status: 400,
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    });
    await expect(responses.create({ ...ask, model: 'none' })).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(embeddings.create(ask)).rejects.toMatchObject({
      status: 404,
      message: expect.stringContaining('/v1/chat/completions'),
    });
  });
});

describe.skipIf(!hasPython)('the unmodified client', () => {
  let real: OwnService;
  beforeAll(async () => {
    real = await ownService();
  }, TIMEOUT_MS);
  afterAll(() => real.close());

  async function run(client: string): Promise<unknown> {
    const { stdout } = await promisify(execFile)(
      pythonEnvironment(ROOT, 'clients').python,
      [
        join(import.meta.dirname, 'forms_client.py'),
        client,
        commented.url,
        scripted.apiKey,
        scripted.model,
        real.url,
        real.apiKey,
        REAL_MODEL,
      ],
      { timeout: TIMEOUT_MS, maxBuffer: 64e6 },
    );
    return JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!);
  }

  const cities = ['Zürich', 'Rome'];
  const answer = 'sun in Zürich, sun in Rome';
  const parsed = { city: 'Zürich', degrees: 21 };

  const calledTwice = [
    'reasoning',
    'message',
    'function_call',
    'function_call',
    'function_call_output',
    'function_call_output',
  ];
  const langchain = {
    cities,
    answer,
    streamed_cities: cities,
    second: 'sun in Rome',
    structured: parsed,
    streamed: 'Hello to you.',
  };

  it.each<[string, object]>([
    [
      'openai',
      {
        plain: 'Hello to you.',
        reasoning: ['Someone greets me.'],
        calls: cities,
        answer,
        streamed: true,
        types: expect.arrayContaining(['response.created', 'response.output_text.delta', 'response.completed']),
        parsed,
        num_tops: [2],
        carried: 'sun, sun',
        chained: answer,
        listed: ['message', ...calledTwice],
        polled: 'Hello to you.',
        resumed: true,
        cancelled: ['cancelled', 'cancelled'],
        counted: 0,
        usage: 0,
        errors: [
          ['BadRequestError', 400],
          ['NotFoundError', 404],
          ['NotFoundError', 404],
          ['AuthenticationError', 401],
        ],
        absent: expect.stringContaining('There is no /v1/embeddings here'),
      },
    ],
    [
      'anthropic',
      {
        types: ['thinking', 'text', 'tool_use', 'tool_use'],
        signed: ['unsigned', 'unsigned'],
        cities,
        stop: ['tool_use', 'end_turn'],
        answer,
        streamed_text: 'I look.',
        streamed: true,
        counted: 0,
        bearer: 'Hello to you.',
        refused: ['invalid_request_error', 'container', true],
        errors: [
          ['BadRequestError', 400],
          ['NotFoundError', 404],
          ['AuthenticationError', 401],
          ['BadRequestError', 400],
        ],
      },
    ],
    [
      'litellm',
      {
        calls: cities,
        finish: 'tool_calls',
        streamed: 'Hello to you.',
        anthropic: 'Hello to you.',
        responses: 'Hello to you.',
        errors: [
          ['ContextWindowExceededError', 400],
          ['AuthenticationError', 401],
        ],
      },
    ],
    [
      'langchain',
      {
        chained: answer,
        prompt: [
          'message',
          ...calledTwice,
          'reasoning',
          'message',
          'message',
          'reasoning',
          'message',
          'function_call',
          'function_call_output',
        ],
        chat: langchain,
        responses: langchain,
      },
    ],
    ['instructor', { json_schema: parsed, tools: 'bool' }],
    ['lm_eval', { accuracy: 1, num_likelihoods: 6, are_negative: true, is_greedy: ['bool'] }],
    ['inspect', { chat: 1, responses: 1 }],
  ])(
    '%s',
    async (name, expected) => {
      expect(await run(name)).toMatchObject(expected);
    },
    TIMEOUT_MS,
  );
});

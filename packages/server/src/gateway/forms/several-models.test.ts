import type { ErrorBody, ModelList } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import type { BaseModel } from '../../seams/contract/base-models.ts';
import type { InferenceBackend } from '../../seams/contract/backends.ts';
import { BackendFailure } from '../../seams/faults/backend-failure.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { replies, ScriptedInference } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';

/** Two base models, each with its own script. */
class TwoModels implements InferenceBackend {
  readonly large = new ScriptedInference({ id: 'tiny/base', contextLength: 512, vocabSize: 1000 });
  readonly small = new ScriptedInference({ id: 'tiny/small', contextLength: 16, vocabSize: 500 });

  get models(): readonly BaseModel[] {
    return [...this.large.models, ...this.small.models];
  }

  of(id: string): ScriptedInference {
    return id === 'tiny/small' ? this.small : this.large;
  }

  retire(): void {}
  checkCapacity(): void {}

  problem(): Promise<null> {
    return Promise.resolve(null);
  }
}

let server: TestServer<TwoModels>;
beforeAll(async () => {
  server = await TestServer.startOn(new TwoModels());
  const { large, small } = server.inference;
  large.script = (request) => replies(request, [{ ids: [5], text: 'large' }]);
  small.script = (request) => replies(request, [{ ids: [5], text: 'small' }]);
});
afterAll(() => server.close());

/** Fields of a route. */
function pick(body: Record<string, unknown>, url: string): Record<string, unknown> {
  const fields = {
    '/v1/chat/completions': ['model', 'messages', 'max_tokens'],
    '/v1/messages': ['model', 'messages', 'max_tokens'],
    '/v1/completions': ['model', 'prompt', 'max_tokens'],
    '/v1/responses': ['model', 'input', 'max_output_tokens'],
    '/tokenize': ['model', 'prompt'],
  }[url]!;
  return Object.fromEntries(fields.map((name) => [name, body[name]]));
}

const told = async (model: string | undefined) => {
  const { choices, model: name } = (await server.chat({ model })).json();
  return [choices[0].message.content, name];
};
const trained = async (name: string, baseModel: string) => {
  const body = { entity: null, project: 'demo', name, base_model: baseModel };
  const { id } = (await server.request('POST', '/v1/preview/models', body)).json<{ id: string }>();
  return id;
};
const faultOf = (response: { json<Body>(): Body }) => response.json<ErrorBody>().error;

test('a request goes to the base model that it names, by default to the first', async () => {
  expect(await told('tiny/small')).toEqual(['small', 'tiny/small']);
  expect(await told('tiny/base')).toEqual(['large', 'tiny/base']);
  expect(await told(undefined)).toEqual(['large', 'tiny/base']);
});

test('a trained model is answered by its own base, with its adapter', async () => {
  await server.addCheckpoint(await trained('pupil', 'tiny/small'), 'a');
  await server.addCheckpoint(await trained('elder', 'tiny/base'), 'b');
  expect(await told('pupil')).toEqual(['small', 'acme/demo/pupil:step1']);
  expect(await told('elder')).toEqual(['large', 'acme/demo/elder:step1']);
  const { large, small } = server.inference;
  expect([small.lastRequest.adapter?.digest, large.lastRequest.adapter?.digest]).toEqual([
    'a'.repeat(64),
    'b'.repeat(64),
  ]);
});

test('all are listed with their own lengths, trained models after their parents', async () => {
  const { data } = (await server.request('GET', '/v1/models')).json<ModelList>();
  expect(data.slice(0, 2).map(({ id, max_model_len }) => [id, max_model_len])).toEqual([
    ['tiny/base', 512],
    ['tiny/small', 16],
  ]);
  const pupil = data.find(({ id }) => id === 'acme/demo/pupil')!;
  expect([pupil.parent, pupil.max_model_len]).toEqual(['tiny/small', 16]);
});

test('lengths, vocabularies and length errors are those of the requested model', async () => {
  const { small } = server.inference;
  const script = small.script;
  small.script = () => {
    throw new BackendFailure('context_length_exceeded', 'your prompt contains 40 input tokens', 'prompt');
  };
  const refused = faultOf(await server.chat({ model: 'pupil' }));
  expect(refused.message).toContain('maximum context length is 16 tokens');
  small.script = script;
  expect(faultOf(await server.chat({ model: 'tiny/small', max_tokens: 17 })).message).toContain('16 tokens');
  expect((await server.chat({ model: 'tiny/base', max_tokens: 17 })).statusCode).toBe(200);
  const ask = (model: string) => server.request('POST', '/v1/completions', { model, prompt: [700], max_tokens: 1 });
  expect([(await ask('tiny/small')).statusCode, (await ask('tiny/base')).statusCode]).toEqual([400, 200]);
});

test('text becomes ids by the vocabulary of the model that was asked', async () => {
  const { large, small } = server.inference;
  [large.lastTokenized, small.lastTokenized] = [null, null];
  const tokenized = await server.request('POST', '/tokenize', { model: 'tiny/small', prompt: 'ab' });
  expect(tokenized.json<{ max_model_len: number }>().max_model_len).toBe(16);
  expect([large.lastTokenized, small.lastTokenized]).toMatchObject([null, { text: 'ab' }]);
  const back = await server.request('POST', '/detokenize', { model: 'tiny/small', tokens: [700] });
  expect([back.statusCode, faultOf(back).code]).toEqual([400, 'engine.invalid_request']);
});

test.each(['/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/responses', '/tokenize'])(
  'a model that finds no room is 503 at %s, with the time to wait',
  async (url) => {
    const { small } = server.inference;
    const { script } = small;
    const refuse = () => {
      throw new RequestError('server.unavailable', 'no room', { param: 'model', headers: { 'retry-after': '5' } });
    };
    small.script = refuse;
    const tokenize = vi.spyOn(small, 'tokenize').mockImplementation(async () => refuse());
    const messages = [{ role: 'user', content: 'x' }];
    for (const stream of url === '/tokenize' ? [undefined] : [false, true]) {
      const body = { model: 'tiny/small', messages, prompt: 'x', input: 'x', max_tokens: 4, max_output_tokens: 4 };
      const response = await server.request('POST', url, {
        ...pick(body, url),
        ...(stream === undefined ? {} : { stream }),
      });
      expect([response.statusCode, response.headers['retry-after']]).toEqual([503, '5']);
      expect(response.body).toContain('no room');
    }
    small.script = script;
    tokenize.mockRestore();
  },
);

test.each([
  ['', 512],
  ['?model=tiny/small', 16],
  ['?model=tiny%2Fbase', 512],
  ['?model=pupil', 16],
])('GET /tokenizer_info%s is of the model that it names', async (query, length) => {
  const info = await server.request('GET', `/tokenizer_info${query}`);
  expect(info.json<{ model_max_length: number }>().model_max_length).toBe(length);
});

test('the page of the service names them, the default one first', async () => {
  expect((await server.request('GET', '/')).body).toContain('Model  tiny/base, tiny/small\n');
});

test('an adapter is loaded onto the base model that it was imported for, and no other', async () => {
  const { store, blobs } = server;
  const { id: entityId } = await store.keys.ensureEntity('acme');
  const id = crypto.randomUUID();
  const keys = { configKey: `uploads/${id}/config`, weightsKey: `uploads/${id}/weights` };
  await store.adapters.create({ id, entityId, baseModel: 'tiny/small', ...keys });
  const directoryKey = `adapters/${id}`;
  await blobs.commitDirectory(await blobs.stageDirectory(), directoryKey);
  const lora = { rank: 8, alpha: 16, targets: ['q'] };
  await server.importAdapter(id, { directoryKey, digest: 'c'.repeat(64), lora } as never);
  const loaded = { lora_name: 'poet', lora_path: `adapter:${id}` };
  expect((await server.request('POST', '/v1/load_lora_adapter', loaded)).statusCode).toBe(200);
  expect(await told('poet')).toEqual(['small', 'acme/lora-adapters/poet:step0']);
  const body = { entity: null, project: 'demo', name: 'mixed', base_model: 'tiny/base' };
  const mixed = await server.request('POST', '/v1/preview/models', { ...body, lora: { init_from: `adapter:${id}` } });
  expect(faultOf(mixed).message).toContain('is for the base model `tiny/small`, not `tiny/base`');
  const pupil = await server.request('POST', '/v1/preview/models', { ...body, lora: { init_from: 'pupil' } });
  expect([pupil.statusCode, faultOf(pupil).param]).toEqual([422, 'lora.init_from']);
});

test('metrics distinguish the models and show if sampling works', async () => {
  const { body } = await server.app.inject({ url: '/metrics' });
  const lines = body.split('\n');
  const count = (model: string) =>
    Number(
      lines
        .find(
          (line) =>
            line.startsWith('vllm:e2e_request_latency_seconds_count{') && line.includes(`model_name="${model}"`),
        )
        ?.split(' ')
        .at(-1),
    );
  expect(count('tiny/small')).toBeGreaterThan(0);
  expect(count('tiny/base')).toBeGreaterThan(0);
  expect(lines.filter((line) => line.startsWith('vllm:num_requests_running{'))).toHaveLength(2);
  expect(lines).toContain('trainyard_inference_up{engine="0"} 1');
});

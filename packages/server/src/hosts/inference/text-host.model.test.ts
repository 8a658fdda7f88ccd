/** The engine with its own text, and the same engine as a back end of a text host: results must be equal. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { DEFAULT_CHAT_PROMPT, DEFAULT_GENERATE } from '@trainyard/generation';
import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { InferenceRequest } from '../../seams/contract/backends.ts';
import { testModel } from '../../../../../tests/support/model.ts';
import { ComputeArbiter } from '../computing/compute-arbiter.ts';
import { EmbeddedInference, type InferenceHostOptions } from '../pool/embedded-inference.ts';
import { RequestCapacity } from '../pool/request-capacity.ts';
import type { EmbeddedDriverSettings } from './embedded-text-host.fixture.ts';

const SETTINGS = {
  precision: 'exact',
  oneDnnPath: '',
  numThreads: 1,
  capacityTokens: 4096,
  maxSequences: 8,
  maxRequests: 8,
} as const;
let directory: string;
let engineHost: EmbeddedInference;
let textHost: EmbeddedInference;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-text-host-'));
  const settings: EmbeddedDriverSettings = { ...SETTINGS, cacheDirectory: directory };
  const modelPath = testModel().f16;
  const arbiter = new ComputeArbiter();
  const start = async (host: InferenceHostOptions, fixture: string | null = null): Promise<EmbeddedInference> => {
    const inference = new EmbeddedInference({
      name: 'engine',
      host,
      ...(fixture === null ? {} : { modulePath: fileURLToPath(new URL(fixture, import.meta.url)) }),
      capacity: new RequestCapacity(8),
      onIdle: () => {},
      arbiter,
      share: 0.5,
      log: () => {},
    });
    await inference.start();
    return inference;
  };
  engineHost = await start({ ...settings, modelPath });
  const driver = { name: 'embedded', settings };
  textHost = await start({ modelId: 'base', modelPath, maxRequests: 8, driver }, './embedded-text-host.fixture.ts');
});
afterAll(async () => {
  await engineHost.close();
  await textHost.close();
  await rm(directory, { recursive: true });
});

const request = (options: Partial<InferenceRequest>): InferenceRequest => ({
  ...DEFAULT_GENERATE,
  adapter: null,
  requestId: 'any',
  tenant: 'acme',
  prompt: { ...DEFAULT_CHAT_PROMPT, messages: [{ role: 'user', content: 'Name three colours.' }] },
  sampling: { ...DEFAULT_SAMPLING, seed: 3n },
  maxTokens: 24,
  logprobs: 2,
  ...options,
});

/** Ids, text, log-probabilities and end of each choice, and the usage without cache-dependent counts. */
async function told(inference: EmbeddedInference, options: Partial<InferenceRequest>) {
  const choices = new Map<number, { ids: number[]; text: string; logprobs: unknown[]; end: unknown }>();
  for await (const event of inference.generate(request(options), new AbortController().signal)) {
    if (event.kind === 'failed') return event;
    if (event.kind === 'completed') {
      const { promptTokens, completionTokens } = event.usage;
      return { choices: [...choices].toSorted(([a], [b]) => a - b), promptTokens, completionTokens };
    }
    if (event.kind !== 'delta' && event.kind !== 'finished') continue;
    const choice = choices.get(event.index) ?? { ids: [], text: '', logprobs: [], end: null };
    choices.set(event.index, choice);
    choice.ids.push(...event.tokenIds);
    choice.text += event.text;
    choice.logprobs.push(...(event.logprobs ?? []));
    if (event.kind === 'finished') choice.end = [event.finishReason, event.stopReason, event.sampling];
  }
  throw new Error('the events have no end');
}

test('both hosts serve the same model', () => {
  expect({ warnings: [], ...textHost.servedModel }).toEqual({ maxLoraRank: null, ...engineHost.servedModel });
});

test.each<[string, Partial<InferenceRequest>]>([
  ['a draw', {}],
  ['choices', { n: 3 }],
  ['greedy choices', { sampling: { ...DEFAULT_SAMPLING, temperature: 0 } }],
  ['a stop string', { sampling: { ...DEFAULT_SAMPLING, temperature: 0 }, stop: [','] }],
  ['a trace', { sampling: { ...DEFAULT_SAMPLING, topK: 20, seed: 3n }, tracesSampling: true, stop: ['e'] }],
  ['a constraint', { constraint: { kind: 'regex', pattern: '(red|green|blue), [a-z]{3,8}' } }],
  ['bad words', { badWords: ['red', 'blue'] }],
])('%s: told alike', async (_what, options) => {
  expect(await told(textHost, options)).toEqual(await told(engineHost, options));
});

test('the text host is healthy, and ends abandoned requests', async () => {
  expect(await textHost.problem()).toBeNull();
  const controller = new AbortController();
  const events = textHost.generate(request({ maxTokens: 2000, ignoreEos: true }), controller.signal);
  await events.next();
  controller.abort();
  for await (const event of events) if (event.kind === 'failed') expect(event.code).toBe('engine.aborted');
  await expect.poll(async () => (await textHost.problem(), textHost.stats()?.numRequests)).toBe(0);
});

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { createServer, type InferenceBackend, type ModelInference } from '@trainyard/server';
import { FolderBlobs, openSqliteStore } from '@trainyard/store';

const STREAMED_TOKENS = 2_000;
const NUM_ANSWERS = 300;

/**
 * Cost of HTTP by itself: the real routes, auth and store with an engine that answers at once. In
 * milliseconds.
 */
export async function measureGateway(what: 'answer' | 'token'): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'trainyard-gateway-'));
  const store = await openSqliteStore(join(directory, 'bench.sqlite'));
  const blobs = await FolderBlobs.open(join(directory, 'blobs'));
  const entity = await store.keys.ensureEntity('bench');
  const { secret } = await store.keys.create({
    entityId: entity.id,
    name: 'bench',
    scopes: ['inference', 'training', 'admin'],
  });
  const server = createServer({
    store,
    blobs,
    inference: instantBackend,
    training: idleQueue,
    exports: { notify: () => undefined, cancelExport: () => undefined, cancelModel: () => undefined },
    imports: { commit: () => Promise.reject(new Error('nothing is imported here')), cancelAdapter: () => {} },
  });
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  try {
    const client = new Trainyard({ baseUrl: `${url}/v1`, apiKey: secret });
    return what === 'answer' ? await measureAnswer(client) : await measureToken(client);
  } finally {
    await server.close();
    await store.close();
    await blobs.close();
    rmSync(directory, { recursive: true });
  }
}

const messages = [{ role: 'user', content: 'Hello' }];

async function measureAnswer(client: Trainyard): Promise<number> {
  const latencies: number[] = [];
  for (let index = 0; index < NUM_ANSWERS; index++) {
    const startedAt = performance.now();
    await client.chat.completions.create({ model: 'instant', messages, max_tokens: 1 });
    latencies.push(performance.now() - startedAt);
  }
  return latencies.toSorted((a, b) => a - b)[NUM_ANSWERS / 2]!;
}

async function measureToken(client: Trainyard): Promise<number> {
  const startedAt = performance.now();
  let numChunks = 0;
  const request = { model: 'instant', messages, max_tokens: STREAMED_TOKENS, stream: true } as const;
  for await (const chunk of await client.chat.completions.create(request)) numChunks += chunk.choices.length;
  if (numChunks < STREAMED_TOKENS) throw new Error(`only ${numChunks} of ${STREAMED_TOKENS} tokens came through`);
  return (performance.now() - startedAt) / STREAMED_TOKENS;
}

const instantModel: ModelInference = {
  tokenizerFacts: () => ({ chatTemplate: null, bosTokenId: null, eosTokenId: 0, addsBos: false }),
  stats: () => null,
  tokenize: async () => ({ tokenIds: [1, 2, 3], texts: null }),
  detokenize: async () => 'words',
  tokenTexts: async () => [],
  async *generate(request) {
    const numTokens = request.maxTokens ?? 1;
    yield { kind: 'started', promptTokenIds: [1, 2, 3], cachedTokens: 0 };
    for (let index = 1; index < numTokens; index++)
      yield { kind: 'delta', index: 0, text: 'word ', tokenIds: [index], logprobs: null };
    yield {
      kind: 'finished',
      index: 0,
      text: 'word',
      tokenIds: [numTokens],
      logprobs: null,
      finishReason: 'length',
      stopReason: null,
    };
    yield { kind: 'completed', usage: { promptTokens: 3, completionTokens: numTokens, cachedTokens: 0 } };
  },
};

const instantBackend: InferenceBackend = {
  models: [{ id: 'instant', contextLength: 8_192, vocabSize: 49_152 }],
  of: () => instantModel,
  retire: () => {},
  checkCapacity: () => {},
  problem: () => null,
};

const idleQueue = { baseModels: null, notify: () => undefined, stopJob: async () => undefined, problem: () => null };

/** Engines with ports, and their callers: reactions to a slow, absent, faulty or hostile other side. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { BackendMember } from '@trainyard/backend';
import { openSwitchingServer } from '@trainyard/backend/testing';
import { DEFAULT_GENERATE, type EngineEvent } from '@trainyard/generation';
import { FolderBlobs, StoreError, type StoreErrorCode } from '@trainyard/store';
import { describe, expect, onTestFinished, test, vi } from 'vitest';

import type { InferenceRequest } from '../seams/contract/backends.ts';
import { BackendFailure } from '../seams/faults/backend-failure.ts';
import { engineMember, MemberList, openEngines, openPort, TEST_SECRET } from '../testing/behind-port.ts';
import { failure, replies, ScriptedInference } from '../testing/scripted-inference.ts';
import { EngineLine } from './pool/engine-line.ts';
import type { EngineTimes } from './pool/engine-link.ts';
import { AdapterFiles } from './port/adapter-files.ts';
import { EngineSecret } from './wire/engine-secret.ts';
import { ENGINE_PROTOCOL } from './wire/engine-protocol.ts';
import { ENGINE_PATHS, MAX_REQUEST_BYTES, PROTOCOL_HEADER, SIGNATURE_HEADER } from './wire/engine-wire.ts';
import { sign, signHello } from './wire/signature.ts';

const BASE = 'tiny/base';
const NEVER = new AbortController().signal;
/** Short, so that a test detects an absent engine in time. */
const QUICK: EngineTimes = { lookMs: 50, answerMs: 200, lostMs: 600 };

const request = (options: Partial<InferenceRequest> = {}): InferenceRequest => ({
  ...DEFAULT_GENERATE,
  requestId: 'r',
  tenant: 't',
  prompt: { kind: 'text', text: 'hello', addSpecialTokens: false },
  adapter: null,
  ...options,
});

async function engine(options: Parameters<typeof openPort>[1] = {}) {
  const inference = new ScriptedInference();
  const { port, url } = await openPort(inference, options);
  onTestFinished(() => port.close());
  return { inference, port, url };
}

async function asking(urls: readonly string[], options: Parameters<typeof openEngines>[1] = {}) {
  const members = new MemberList(urls.map((url) => engineMember(url)));
  const engines = await openEngines(members, options);
  onTestFinished(() => engines.close());
  return { engines, members };
}

async function all(events: AsyncIterable<EngineEvent>): Promise<EngineEvent[]> {
  const read: EngineEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

function last(events: readonly EngineEvent[]): EngineEvent | undefined {
  return events.at(-1);
}

test('requests and answers are the same as in one process', async () => {
  const { inference, url } = await engine();
  const { engines } = await asking([url]);
  expect(engines.models).toEqual(inference.models);
  const model = engines.of(BASE);
  expect(model.tokenizerFacts()).toEqual(inference.tokenizerFacts());
  const events = await all(model.generate(request({ n: 2, logprobs: 3 }), NEVER));
  // Compared as text, because JSON has no −0, as in every answer.
  expect(JSON.stringify(events)).toBe(
    JSON.stringify(await all(inference.generate(request({ n: 2, logprobs: 3 }), NEVER))),
  );
  const input = { kind: 'text', text: 'ab', addSpecialTokens: true } as const;
  expect(await model.tokenize(input, { withTexts: true, signal: NEVER })).toEqual({
    tokenIds: [1, 97, 98],
    texts: ['\u0001', 'a', 'b'],
  });
  expect(await model.detokenize([97], { signal: NEVER })).toBe('a');
  expect(await model.tokenTexts([97], { signal: NEVER })).toEqual(['<97>']);
  await expect(model.detokenize([9999], { signal: NEVER })).rejects.toMatchObject({
    name: 'BackendFailure',
    code: 'engine.invalid_request',
    param: 'tokens',
  });
  engines.retire('d'.repeat(64));
  await vi.waitFor(() => expect(inference.retired).toEqual(['d'.repeat(64)]), 60_000);
  expect(engines.problem()).toBeNull();
});

describe('a new step', () => {
  const step = { digest: 'e'.repeat(64), directoryKey: 'checkpoints/1', path: null };
  const refusal = () =>
    Promise.reject(new BackendFailure('engine.adapter_unreadable', 'rank 32 is too large for it', null));

  test('is loaded in every engine at the same time, and each reports it with its servers', async () => {
    const both = [await engine(), await engine()];
    const release = Promise.withResolvers<null>();
    let numLoading = 0;
    const server = {
      name: 'http://vllm',
      adapters: [{ digest: step.digest, since: 2_000 }],
    } as unknown as BackendMember;
    for (const { inference } of both) {
      inference.members = () => [server];
      inference.loads = async () => {
        numLoading += 1;
        return await release.promise;
      };
    }
    const { engines } = await asking(both.map(({ url }) => url));
    const published = engines.publish(BASE, step, NEVER);
    await vi.waitFor(() => expect(numLoading).toBe(2), 60_000);
    expect(both.map(({ inference }) => inference.published)).toEqual([[], []]);
    release.resolve(null);
    expect(await published).toBeNull();
    // The file on the engine's machine.
    for (const { inference } of both) expect(inference.published).toEqual([{ ...step, path: step.directoryKey }]);
    const held = [{ digest: step.digest, since: 1_000 }];
    await vi.waitFor(() => {
      const members = engines.of(BASE).members!();
      expect(members.map(({ adapters }) => adapters)).toEqual([held, held]);
      expect(members.map(({ members: servers }) => servers)).toEqual([[server], [server]]);
    }, 60_000);
  });

  test('refused by all engines fails with the reason of one; one success is enough', async () => {
    const [good, bad] = [await engine(), await engine()];
    bad.inference.loads = refusal;
    const { engines } = await asking([good.url, bad.url]);
    expect(await engines.publish(BASE, step, NEVER)).toBe('1 of 2 engines: rank 32 is too large for it');
    bad.inference.loads = () =>
      Promise.reject(new BackendFailure('engine.adapter_unreadable', 'no file /srv/1/adapter.gguf', null));
    expect(await engines.publish(BASE, step, NEVER)).toMatch(/^1 of 2 engines: [^/]*$/);
    good.inference.loads = async () => '1 of 3 vLLM servers: it refused the files';
    expect(await engines.publish(BASE, step, NEVER)).toMatch(/^2 of 2 engines: /);
    good.inference.loads = refusal;
    await expect(engines.publish(BASE, step, NEVER)).rejects.toMatchObject({ code: 'engine.adapter_unreadable' });
  });

  test('does not wait for an engine that is gone, draining or silent', async () => {
    const [good, gone, ending] = [await engine(), await engine(), await engine()];
    const silent = await openSilentEngine();
    const logged: string[] = [];
    const { engines } = await asking([good.url, gone.url, ending.url, silent.url], {
      times: QUICK,
      log: (line) => void logged.push(line),
    });
    await gone.port.close();
    await ending.port.drain(0);
    silent.stop();
    expect(await engines.publish(BASE, step, NEVER)).toBeNull();
    expect(good.inference.published).toHaveLength(1);
    expect(logged.join('\n')).toContain(`an engine loads the adapter ${step.digest} by its first request`);
  });

  test('waits as long as the job allows for an engine that answers but does not load it', async () => {
    const slow = await engine();
    slow.inference.loads = () => new Promise(() => {});
    const { engines } = await asking([slow.url]);
    await expect(engines.publish(BASE, step, AbortSignal.timeout(300))).rejects.toThrow(/timeout/);
    expect(engines.problem()).toBeNull();
  });
});

/** An engine that can stop answering, like a stalled machine. */
async function openSilentEngine() {
  const { url, inference } = await engine();
  const stood = Promise.withResolvers<null>();
  onTestFinished(() => stood.resolve(null));
  return {
    url,
    stop: () => {
      inference.problem = () => stood.promise;
      inference.loads = () => stood.promise;
    },
  };
}

test('requests that follow each other go over the connections that are there, also when their readers leave with the last event', async () => {
  const { url } = await engine();
  const { engines } = await asking([url]);
  await all(engines.of(BASE).generate(request(), NEVER));
  const connects = vi.spyOn(Socket.prototype, 'connect');
  onTestFinished(() => connects.mockRestore());
  for (let count = 0; count < 20; count++) {
    let numEvents = 0;
    for await (const event of engines.of(BASE).generate(request(), NEVER)) {
      numEvents += 1;
      if (event.kind === 'completed' && count % 2 === 0) break;
    }
    expect(numEvents).toBeGreaterThan(1);
    await engines.of(BASE).tokenTexts([97], { signal: NEVER });
  }
  // The end of an answer may come after the next request.
  expect(connects.mock.calls.length).toBeLessThanOrEqual(3);
});

test('a reader that stops pulling stops the engine, and leaving ends the request there', async () => {
  const { inference, url } = await engine();
  const text = 'x'.repeat(100_000);
  inference.script = async function* (_request, signal) {
    yield { kind: 'started', promptTokenIds: [], cachedTokens: 0 };
    while (!signal.aborted) yield { kind: 'delta', index: 0, text, tokenIds: [1], logprobs: null };
  };
  const { engines } = await asking([url]);
  const events = engines.of(BASE).generate(request(), NEVER)[Symbol.asyncIterator]();
  for (let count = 0; count < 10; count++) await events.next();
  let pulled = 0;
  // The system's sockets hold a few megabytes; without a limit this would never end.
  await vi.waitFor(
    () => {
      const isStill = inference.numPulled === pulled;
      pulled = inference.numPulled;
      expect(isStill).toBe(true);
    },
    { interval: 300, timeout: 30_000 },
  );
  expect(pulled).toBeLessThan(400);
  expect(inference.numEnded).toBe(0);
  await events.return?.();
  await vi.waitFor(() => expect(inference.numEnded).toBe(1), 60_000);
});

test('an aborted request is ended there, and here with one event', async () => {
  const { inference, url } = await engine();
  inference.script = async function* (_request, signal) {
    yield { kind: 'started', promptTokenIds: [], cachedTokens: 0 };
    await once(signal, 'abort');
  };
  const { engines } = await asking([url]);
  const end = new AbortController();
  const events = engines.of(BASE).generate(request(), end.signal)[Symbol.asyncIterator]();
  await events.next();
  end.abort();
  expect((await events.next()).value).toMatchObject({ kind: 'failed', code: 'engine.aborted' });
  await vi.waitFor(() => expect(inference.numEnded).toBe(1), 60_000);
});

test('an engine that goes in the middle of a stream ends it; the next request goes to another', async () => {
  const engines = [await engine(), await engine()];
  for (const { inference } of engines)
    inference.script = async function* (asked, signal) {
      if (asked.requestId === 'short') return yield* replies(asked, []);
      yield { kind: 'started', promptTokenIds: [], cachedTokens: 0 };
      yield { kind: 'delta', index: 0, text: 'a', tokenIds: [5], logprobs: null };
      await once(signal, 'abort');
    };
  const { engines: pool } = await asking(engines.map(({ url }) => url));
  const events = pool.of(BASE).generate(request(), NEVER)[Symbol.asyncIterator]();
  for (const kind of ['started', 'delta']) expect((await events.next()).value).toMatchObject({ kind });
  const first = engines.find(({ inference }) => inference.requests.length === 1)!;
  const second = engines.find((one) => one !== first)!;
  await first.port.close();
  expect((await events.next()).value).toMatchObject({
    kind: 'failed',
    code: 'engine.host_lost',
    message: 'the inference engine stopped while this request ran; retry',
  });
  expect((await events.next()).done).toBe(true);
  expect(last(await all(pool.of(BASE).generate(request({ requestId: 'short' }), NEVER)))?.kind).toBe('completed');
  expect(second.inference.requests).toHaveLength(1);
  expect(
    pool
      .of(BASE)
      .members?.()
      .map(({ state }) => state)
      .toSorted(),
  ).toEqual(['down', 'up']);
  expect(pool.problem()).toBeNull();
});

test('a server that switches protocols counts as lost, for the next caller too', async () => {
  const server = await openSwitchingServer();
  onTestFinished(server.close);
  const line = new EngineLine(server.url, TEST_SECRET);
  onTestFinished(() => line.close());
  for (let again = 0; again < 2; again++)
    await expect(line.call(ENGINE_PATHS.state, {}, NEVER)).rejects.toMatchObject({ kind: 'lost' });
});

test('a stalled engine is lost after a long silence, together with its requests', async () => {
  // Simulates a network that from some moment on drops everything.
  const sockets = new Set<Socket>();
  let isSwallowing = false;
  const network = createServer((near) => {
    const far = new Socket().connect(port.port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('data', (bytes) => void (isSwallowing || to.write(bytes))).on('error', () => undefined);
      from.on('close', () => isSwallowing || to.destroy());
    }
  });
  network.listen(0, '127.0.0.1');
  await once(network, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    network.close();
  });
  const url = `http://127.0.0.1:${(network.address() as AddressInfo).port}`;
  const { inference, port } = await engine({ url });
  inference.script = async function* (_request, signal) {
    yield { kind: 'started', promptTokenIds: [], cachedTokens: 0 };
    await once(signal, 'abort');
  };
  const { engines } = await asking([url], { times: QUICK });
  const events = engines.of(BASE).generate(request(), NEVER)[Symbol.asyncIterator]();
  await events.next();
  isSwallowing = true;
  expect((await events.next()).value).toMatchObject({ kind: 'failed', code: 'engine.host_lost' });
  expect(engines.problem()).toBe(`no engine accepts requests for ${BASE}`);
  expect(last(await all(engines.of(BASE).generate(request(), NEVER)))).toMatchObject({ code: 'engine.host_lost' });
});

test('a broken stream does not remove its engine: the next state check finds it', async () => {
  const { inference, url } = await engine();
  const { engines } = await asking([url]);
  inference.script = async function* () {
    yield { kind: 'started', promptTokenIds: [], cachedTokens: 0 };
    throw new Error('a bug');
  };
  expect(last(await all(engines.of(BASE).generate(request(), NEVER)))).toMatchObject({ code: 'engine.host_lost' });
  inference.script = (asked) => replies(asked, []);
  expect(last(await all(engines.of(BASE).generate(request(), NEVER)))?.kind).toBe('completed');
});

test('a request that makes one engine fail is not tried on the others', async () => {
  const parts = [await engine(), await engine()];
  for (const { inference } of parts)
    inference.script = () => {
      throw new Error('a bug');
    };
  const { engines } = await asking(parts.map(({ url }) => url));
  expect(await all(engines.of(BASE).generate(request(), NEVER))).toMatchObject([{ code: 'engine.internal' }]);
  expect(parts.map(({ inference }) => inference.requests.length).toSorted((a, b) => a - b)).toEqual([0, 1]);
  expect(engines.problem()).toBeNull();
});

test('a full engine is skipped; if all are full, the error is engine.overloaded', async () => {
  const engines = [await engine(), await engine()];
  for (const { inference } of engines) inference.script = () => [failure('engine.overloaded', 'at most 2 requests')];
  const { engines: pool } = await asking(engines.map(({ url }) => url));
  expect(await all(pool.of(BASE).generate(request(), NEVER))).toMatchObject([{ code: 'engine.overloaded' }]);
  expect(engines.map(({ inference }) => inference.requests.length)).toEqual([1, 1]);
  engines[1]!.inference.script = (asked) => replies(asked, []);
  expect(last(await all(pool.of(BASE).generate(request(), NEVER)))?.kind).toBe('completed');
});

test('a draining engine accepts nothing new and finishes its current requests', async () => {
  const { inference, port, url } = await engine();
  const go = Promise.withResolvers<void>();
  inference.script = async function* (asked) {
    yield { kind: 'started', promptTokenIds: [], cachedTokens: 0 };
    await go.promise;
    yield* [...replies(asked, [])].slice(1);
  };
  const { engines } = await asking([url]);
  const events = engines.of(BASE).generate(request(), NEVER)[Symbol.asyncIterator]();
  await events.next();
  const drained = port.drain(60_000);
  expect(await all(engines.of(BASE).generate(request(), NEVER))).toMatchObject([
    { code: 'engine.host_lost', message: `no engine accepts requests for ${BASE} now; retry` },
  ]);
  go.resolve();
  expect((await events.next()).value).toMatchObject({ kind: 'finished' });
  expect((await events.next()).value).toMatchObject({ kind: 'completed' });
  await drained;
});

test('requests that have a beginning in common meet, and those of others are spread', async () => {
  const engines = [await engine(), await engine(), await engine()];
  const { engines: pool } = await asking(engines.map(({ url }) => url));
  const model = pool.of(BASE);
  for (let conversation = 0; conversation < 12; conversation++) {
    const before = engines.map(({ inference }) => inference.requests.length);
    const head = { role: 'user', content: `scenario ${conversation}` } as const;
    const turns = [[head], [head], [head, { role: 'assistant', content: 'yes' }, { role: 'user', content: 'and?' }]];
    for (const messages of turns) {
      const prompt = {
        kind: 'chat',
        messages,
        tools: null,
        toolsText: null,
        templateVariables: {},
        templateVariablesText: null,
        addGenerationPrompt: true,
        continueFinalMessage: false,
        addSpecialTokens: false,
        chatTemplate: null,
      } as const;
      await all(model.generate(request({ prompt }), NEVER));
    }
    const taken = engines.map(({ inference }, index) => inference.requests.length - before[index]!);
    expect(taken.toSorted((a, b) => a - b)).toEqual([0, 0, 3]);
  }
  for (const { inference } of engines) expect(inference.requests.length).toBeGreaterThan(0);
});

test('engines that differ are not used together: the older one counts', async () => {
  const inferences = [
    new ScriptedInference(),
    new ScriptedInference({ id: BASE, contextLength: 256, vocabSize: 1000 }),
  ];
  const members = [];
  for (const [index, inference] of inferences.entries()) {
    const { port, url } = await openPort(inference);
    onTestFinished(() => port.close());
    members.push(engineMember(url, { startedAt: index }));
  }
  const logged: string[] = [];
  const engines = await openEngines(new MemberList(members), { log: (line) => logged.push(line) });
  onTestFinished(() => engines.close());
  expect(engines.models).toEqual(inferences[0]!.models);
  for (let count = 0; count < 8; count++)
    await all(
      engines
        .of(BASE)
        .generate(request({ prompt: { kind: 'text', text: `${count}`, addSpecialTokens: false } }), NEVER),
    );
  expect(inferences.map(({ requests }) => requests.length)).toEqual([8, 0]);
  expect(logged.filter((line) => line.includes('another context length'))).toHaveLength(1);
});

test('files that differ are seen by their digests', async () => {
  const engines = [await engine(), await engine()];
  const members = engines.map(({ url }, index) =>
    engineMember(url, { startedAt: index, baseModels: [{ id: BASE, fileDigest: `${index}`, vocabSize: 1000 }] }),
  );
  const logged: string[] = [];
  const pool = await openEngines(new MemberList(members), { log: (line) => logged.push(line) });
  onTestFinished(() => pool.close());
  expect(logged.join('\n')).toContain('with other weights than');
});

test('without any engine the error has a Retry-After, and a new engine is found', async () => {
  const { engines, members } = await asking([], { defaultModel: BASE });
  expect(engines.models).toEqual([]);
  expect(engines.problem()).toBe('no engine is available');
  for (const id of [null, BASE])
    expect(engines.absence(id)).toMatchObject({ code: 'server.unavailable', headers: { 'retry-after': '5' } });
  expect(engines.absence('other')).toBeNull();
  const { url } = await engine();
  members.set([engineMember(url)]);
  await vi.waitFor(() => expect(engines.models).toHaveLength(1), 60_000);
  expect(engines.absence(BASE)).toBeNull();
  // A base model of a trainer may come; an unknown one may not.
  members.set([
    engineMember(url),
    engineMember('t', { role: 'trainer', url: null, baseModels: [{ id: 'large', fileDigest: null, vocabSize: null }] }),
  ]);
  await vi.waitFor(() => expect(engines.absence('large')).not.toBeNull(), 60_000);
});

test('an engine restarted on its port is asked again, with a new session', async () => {
  const { port, url } = await engine();
  const { engines } = await asking([url], { times: QUICK });
  expect(last(await all(engines.of(BASE).generate(request(), NEVER)))?.kind).toBe('completed');
  await port.close();
  const next = await engine({ port: Number(new URL(url).port) });
  await vi.waitFor(
    async () => expect(last(await all(engines.of(BASE).generate(request(), NEVER)))?.kind).toBe('completed'),
    60_000,
  );
  expect(next.inference.requests.length).toBeGreaterThan(0);
});

test('limits of requests in flight hold on this side too', async () => {
  const { inference, url } = await engine();
  inference.script = async function* (_request, signal) {
    yield { kind: 'started', promptTokenIds: [], cachedTokens: 0 };
    await once(signal, 'abort');
  };
  const { engines } = await asking([url], { maxRequests: 1 });
  const events = engines.of(BASE).generate(request(), NEVER)[Symbol.asyncIterator]();
  await events.next();
  expect(() => engines.checkCapacity()).toThrow('at most 1 requests may be in flight');
  expect(await all(engines.of(BASE).generate(request(), NEVER))).toMatchObject([{ code: 'engine.overloaded' }]);
  await events.return?.();
  engines.checkCapacity();
});

test('an adapter is found by its key and compared with its digest', async () => {
  const { directory, blobs, digest } = await adapterBlobs();
  const logged: string[] = [];
  const { inference, url } = await engine({
    adapters: new AdapterFiles({ blobs, log: () => {} }),
    log: (line) => logged.push(line),
  });
  const { engines } = await asking([url]);
  const ask = (adapter: { digest: string; directoryKey: string }) =>
    all(engines.of(BASE).generate(request({ adapter: { ...adapter, path: null } }), NEVER));
  await ask({ digest, directoryKey: 'checkpoints/1' });
  const path = join((await blobs.localDirectory('checkpoints/1'))!, 'adapter.gguf');
  expect(inference.lastRequest.adapter).toEqual({ digest, directoryKey: 'checkpoints/1', path });
  const wrong = { code: 'engine.adapter_unreadable' };
  await expect(ask({ digest: 'b'.repeat(64), directoryKey: 'checkpoints/1' })).rejects.toMatchObject({
    code: 'engine.adapter_damaged',
  });
  await expect(ask({ digest, directoryKey: 'checkpoints/2' })).rejects.toMatchObject(wrong);
  expect(inference.requests).toHaveLength(1);
  expect(logged).toHaveLength(2);
  // Keys are not paths, and the caller gets no path.
  for (const directoryKey of ['../checkpoints/1', '/etc', 'checkpoints/../checkpoints/1', 'checkpoints/1/', ''])
    expect(await ask({ digest, directoryKey })).toEqual([
      { kind: 'failed', code: 'engine.internal', message: 'the engine failed; see its log', param: null },
    ]);
  const bare = await blobs.stageDirectory();
  await writeFile(join(bare, 'adapter.gguf'), 'the same');
  await blobs.commitDirectory(bare, 'checkpoints/3');
  const failed = await ask({ digest, directoryKey: 'checkpoints/3' }).then(String, String);
  expect(failed).toContain('adapter_model.safetensors is damaged: it is missing');
  expect(failed).not.toContain(directory);
  expect(inference.requests).toHaveLength(1);
  const many = await Promise.all(Array.from({ length: 20 }, () => ask({ digest, directoryKey: 'checkpoints/1' })));
  expect(many.map((events) => last(events)?.kind)).toEqual(Array.from({ length: 20 }, () => 'completed'));
});

test.each(['store.unavailable', 'store.disk_full'] as const)(
  'an engine that cannot read an adapter (%s) passes the request to one that can, and reports it if none can',
  async (code) => {
    const { blobs, digest } = await adapterBlobs();
    const adapter = { digest, directoryKey: 'checkpoints/1', path: null };
    const logged: string[] = [];
    const log = (line: string) => logged.push(line);
    const bad = await engine({ adapters: new AdapterFiles({ blobs: failing(blobs, code), log }), log });
    const good = await engine({ adapters: new AdapterFiles({ blobs, log: () => {} }) });

    const { engines } = await asking([bad.url, good.url]);
    // For prompts of either engine.
    for (let i = 0; i < 20; i++) {
      const prompt = { kind: 'text', text: `prompt ${i}`, addSpecialTokens: false } as const;
      const events = await all(engines.of(BASE).generate(request({ prompt, adapter }), NEVER));
      expect(last(events)?.kind).toBe('completed');
    }
    expect(good.inference.requests).toHaveLength(20);
    expect(logged.length).toBeGreaterThan(0);
    expect(logged[0]).toContain('of this machine alone');

    const { engines: alone } = await asking([bad.url]);
    const failed = all(alone.of(BASE).generate(request({ adapter }), NEVER));
    await expect(failed).rejects.toMatchObject({ name: 'StoreError', code });
    // Other requests work.
    expect(last(await all(alone.of(BASE).generate(request(), NEVER)))?.kind).toBe('completed');
  },
);

/** Blobs with the adapter `checkpoints/1` and its digest. */
async function adapterBlobs() {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-adapters-'));
  const blobs = await FolderBlobs.open(directory);
  onTestFinished(async () => {
    await blobs.close();
    await rm(directory, { recursive: true });
  });
  const staged = await blobs.stageDirectory();
  await writeFile(join(staged, 'adapter_model.safetensors'), 'weights');
  await writeFile(join(staged, 'adapter.gguf'), 'the same');
  await blobs.commitDirectory(staged, 'checkpoints/1');
  const digest = createHash('sha256').update('weights').digest('hex');
  return { directory, blobs, digest };
}

/** Blobs that are unavailable on one machine. */
function failing(blobs: FolderBlobs, code: StoreErrorCode): FolderBlobs {
  return Object.assign(Object.create(blobs) as FolderBlobs, {
    localDirectory: () => Promise.reject(new StoreError(code, 'of this machine alone')),
  });
}

test('a caller with another secret learns nothing, and its own log has the remedy', async () => {
  const { inference, url } = await engine();
  const logged: string[] = [];
  const secret = new EngineSecret('another secret of more than 32 characters');
  const { engines } = await asking([url], { secret, log: (line) => logged.push(line) });
  expect(engines.models).toEqual([]);
  expect(logged.join('\n')).toContain('rejects the secret: give both processes the same TRAINYARD_ENGINE_SECRET');
  expect(inference.requests).toEqual([]);
});

async function post(url: string, path: string, body: string, headers: Record<string, string> = {}) {
  const answer = await fetch(`${url}${path}`, { method: 'POST', body, headers });
  return { status: answer.status, text: await answer.text() };
}

async function session(url: string): Promise<string> {
  const random = `${Math.random()}`.replace('.', '').padEnd(16, 'r');
  const headers = { [SIGNATURE_HEADER]: signHello(TEST_SECRET, url, random), [PROTOCOL_HEADER]: ENGINE_PROTOCOL };
  const { text } = await post(url, ENGINE_PATHS.hello, '{}', headers);
  return (JSON.parse(text) as { session: string }).session;
}

test('a port answers every request without the secret with nothing', async () => {
  const { url } = await engine();
  for (const path of ['/', '/health', '/v1/models', ...Object.values(ENGINE_PATHS)]) {
    expect(await post(url, path, '{}')).toEqual({ status: 401, text: '' });
    const headers = { [SIGNATURE_HEADER]: 'a.1.b.c', [PROTOCOL_HEADER]: 'x' };
    expect(await post(url, path, '{}', headers)).toEqual({ status: 401, text: '' });
  }
});

test('a recorded request cannot be replayed, nor its signature used for another body or path', async () => {
  const { inference, url } = await engine();
  const id = await session(url);
  const body = JSON.stringify({ digest: 'd'.repeat(64) });
  const header = sign(TEST_SECRET, { path: ENGINE_PATHS.retire, session: id, count: 1, body });
  const headers = { [SIGNATURE_HEADER]: header };
  expect((await post(url, ENGINE_PATHS.retire, body.replace('d', 'e'), headers)).status).toBe(401);
  const other = sign(TEST_SECRET, { path: ENGINE_PATHS.retire, session: id, count: 2, body });
  expect((await post(url, ENGINE_PATHS.retire, body, { [SIGNATURE_HEADER]: other })).status).toBe(200);
  expect((await post(url, ENGINE_PATHS.retire, body, { [SIGNATURE_HEADER]: other })).status).toBe(440);
  expect((await post(url, ENGINE_PATHS.state, body, { [SIGNATURE_HEADER]: other })).status).toBe(401);
  expect(inference.retired).toHaveLength(1);
});

test('a peer of another release gets one line with both releases', async () => {
  const { url } = await engine();
  const headers = { [SIGNATURE_HEADER]: signHello(TEST_SECRET, url, 'r'.repeat(24)), [PROTOCOL_HEADER]: '0-other' };
  const { status, text } = await post(url, ENGINE_PATHS.hello, '{}', headers);
  expect(status).toBe(426);
  expect(JSON.parse(text)).toEqual({ protocol: ENGINE_PROTOCOL, version: expect.any(String) });
});

test('invalid bodies are refused, and the port stays usable', async () => {
  const { inference, url } = await engine();
  const id = await session(url);
  let count = 0;
  const ask = async (path: (typeof ENGINE_PATHS)[keyof typeof ENGINE_PATHS], body: string, more = {}) =>
    (
      await post(url, path, body, {
        [SIGNATURE_HEADER]: sign(TEST_SECRET, { path, session: id, count: ++count, body }),
        ...more,
      })
    ).status;
  for (const body of ['', '{', '[]', 'null', '{}', '{"model":"tiny/base","request":{}}'])
    expect(await ask(ENGINE_PATHS.generate, body)).toBe(400);
  expect(await ask(ENGINE_PATHS.detokenize, '{"model":"elsewhere","tokenIds":[1]}')).toBe(400);
  expect(await ask(ENGINE_PATHS.tokenize, 'x'.repeat(1000))).toBe(400);
  expect(inference.requests).toEqual([]);
  expect(await ask(ENGINE_PATHS.state, '{}')).toBe(200);
  const tooLong = await rawHead(url, id, ++count);
  expect(tooLong).toContain('413');
  expect(await ask(ENGINE_PATHS.state, '{}')).toBe(200);
});

/** Answer to a head that announces a body above the limit, without sending it. */
async function rawHead(url: string, id: string, count: number): Promise<string> {
  const path = ENGINE_PATHS.generate;
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const signature = sign(TEST_SECRET, { path, session: id, count, body: '' });
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: x\r\n${SIGNATURE_HEADER}: ${signature}\r\ncontent-length: ${MAX_REQUEST_BYTES + 1}\r\n\r\n`,
  );
  let text = '';
  for await (const piece of socket) text += String(piece);
  return text;
}

test('an engine that sends nonsense is not asked again, and its answer reaches no client', async () => {
  const nonsense = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nno JSON'));
  });
  nonsense.listen(0, '127.0.0.1');
  await once(nonsense, 'listening');
  onTestFinished(() => void nonsense.close());
  const { port } = nonsense.address() as { port: number };
  const logged: string[] = [];
  const { engines } = await asking([`http://127.0.0.1:${port}`], { log: (line) => logged.push(line) });
  expect(engines.problem()).toBe('no engine is available');
  expect(logged[0]).toContain('sent an invalid response');
});

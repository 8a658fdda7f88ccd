/**
 * Attacks from the network between the machines: the attacker reads and changes everything but has no secret.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, Socket } from 'node:net';

import { DEFAULT_GENERATE, type EngineEvent } from '@trainyard/generation';
import { expect, onTestFinished, test, vi } from 'vitest';

import type { InferenceRequest } from '../seams/contract/backends.ts';
import { engineMember, MemberList, openEngines, openPort, TEST_SECRET } from '../testing/behind-port.ts';
import { ScriptedInference } from '../testing/scripted-inference.ts';
import { ENGINE_PROTOCOL } from './wire/engine-protocol.ts';
import { ENGINE_PATHS, PROTOCOL_HEADER, SIGNATURE_HEADER } from './wire/engine-wire.ts';
import { sign, signHello } from './wire/signature.ts';

const BASE = 'tiny/base';
const NEVER = new AbortController().signal;
const REQUEST: InferenceRequest = {
  ...DEFAULT_GENERATE,
  requestId: 'r',
  tenant: 't',
  prompt: { kind: 'text', text: 'hello', addSpecialTokens: false },
  adapter: null,
  logprobs: 1,
};

async function all(events: AsyncIterable<EngineEvent>): Promise<EngineEvent[]> {
  const read: EngineEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

/** Changes the bytes of one direction of a connection, and returns those to pass on. */
type Tamper = (bytes: Buffer) => Buffer | null;

/** A network with an attacker. Everything sent is recorded. */
class Network {
  readonly sent: Buffer[] = [];
  answers: Tamper = (bytes) => bytes;
  numConnections = 0;
  /** Port of the engine that gets the traffic. */
  target = 0;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((near) => {
    this.numConnections += 1;
    const far = new Socket().connect(this.target, '127.0.0.1');
    const carry = (from: Socket, to: Socket, change: Tamper): void => {
      this.#sockets.add(from);
      from.on('error', () => undefined).on('close', () => to.destroy());
      from.on('data', (bytes) => {
        const changed = change(bytes);
        if (changed === null) to.destroySoon();
        else to.write(changed);
      });
    };
    carry(near, far, (bytes) => {
      this.sent.push(bytes);
      return bytes;
    });
    carry(far, near, (bytes) => this.answers(bytes));
  });

  static async open(): Promise<Network> {
    const network = new Network();
    network.#server.listen(0, '127.0.0.1');
    await once(network.#server, 'listening');
    onTestFinished(() => {
      for (const socket of network.#sockets) socket.destroy();
      network.#server.close();
    });
    return network;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
}

/** An engine that is only reachable through that network, and its caller. */
async function overNetwork() {
  const network = await Network.open();
  const { inference, port } = await engine({ url: network.url });
  network.target = port.port;
  const logged: string[] = [];
  const engines = await openEngines(new MemberList([engineMember(network.url)]), {
    log: (line) => logged.push(line),
  });
  onTestFinished(() => engines.close());
  return { network, inference, port, engines, model: engines.of(BASE), logged };
}

async function engine(options: Parameters<typeof openPort>[1] = {}) {
  const inference = new ScriptedInference();
  const { port, url } = await openPort(inference, options);
  onTestFinished(() => port.close());
  return { inference, port, url };
}

async function post(url: string, path: string, body: string, headers: Record<string, string>) {
  const answer = await fetch(`${url}${path}`, { method: 'POST', body, headers });
  return { status: answer.status, text: await answer.text() };
}

const helloHeaders = (url: string) => ({
  [SIGNATURE_HEADER]: signHello(TEST_SECRET, url, 'r'.repeat(24)),
  [PROTOCOL_HEADER]: ENGINE_PROTOCOL,
});

test('thousands of replays of a recorded hello do not end the sessions of other clients', async () => {
  const { url } = await engine();
  const headers = helloHeaders(url);
  const { session } = JSON.parse((await post(url, ENGINE_PATHS.hello, '{}', headers)).text) as { session: string };
  const ask = async (count: number) => {
    const header = sign(TEST_SECRET, { path: ENGINE_PATHS.state, session, count, body: '{}' });
    return (await post(url, ENGINE_PATHS.state, '{}', { [SIGNATURE_HEADER]: header })).status;
  };
  expect(await ask(1)).toBe(200);
  for (let round = 0; round < 11; round++)
    await Promise.all(Array.from({ length: 100 }, () => post(url, ENGINE_PATHS.hello, '{}', headers)));
  expect(await ask(2)).toBe(200);
});

test('a hello recorded for one engine is refused by another, so requests cannot be misdirected', async () => {
  const { url } = await engine();
  const other = await engine();
  expect((await post(other.url, ENGINE_PATHS.hello, '{}', helloHeaders(url))).status).toBe(401);
  const { network, engines, model } = await overNetwork();
  expect((await all(model.generate(REQUEST, NEVER))).at(-1)?.kind).toBe('completed');
  // From now on another engine of the same service replaces the first.
  network.target = other.port.port;
  network.answers = () => null;
  await all(model.generate(REQUEST, NEVER));
  network.answers = (bytes) => bytes;
  expect((await all(model.generate(REQUEST, NEVER))).at(-1)?.kind).toBe('failed');
  expect(other.inference.requests).toEqual([]);
  expect(engines.problem()).toContain(BASE);
});

test('a byte-for-byte replay of all recorded traffic samples nothing', async () => {
  const { network, inference, model, port } = await overNetwork();
  await all(model.generate(REQUEST, NEVER));
  await all(model.generate(REQUEST, NEVER));
  expect(inference.requests).toHaveLength(2);
  const heard = [...network.sent];
  for (const bytes of heard) {
    const socket = connect(port.port, '127.0.0.1').on('error', () => undefined);
    socket.write(bytes);
    await Promise.race([once(socket, 'data'), once(socket, 'close')]);
    socket.destroy();
  }
  expect(inference.requests).toHaveLength(2);
  expect((await all(model.generate(REQUEST, NEVER))).at(-1)?.kind).toBe('completed');
});

test('connections are used again', async () => {
  const { network, model } = await overNetwork();
  for (let count = 0; count < 20; count++) {
    await all(model.generate(REQUEST, NEVER));
    await model.detokenize([97], { signal: NEVER });
  }
  expect(network.numConnections).toBeLessThan(6);
});

const replace = (from: string, to: string) => (bytes: Buffer) =>
  Buffer.from(bytes.toString('latin1').replace(from, to), 'latin1');
const isStream = (bytes: Buffer) => bytes.includes('"kind"');

test.each<[string, Tamper]>([
  ['a token', replace('"tokenIds":[5,6]', '"tokenIds":[7,6]')],
  ['a log-probability', replace('"logprob":-0.5', '"logprob":-0.1')],
  ['an event left out', replace('{"kind":"delta"', '{"kind":"other"')],
  [
    'an end made up',
    (bytes) =>
      isStream(bytes)
        ? chunked('[{"kind":"completed","usage":{"promptTokens":3,"completionTokens":0,"cachedTokens":0}}]')
        : bytes,
  ],
  [
    'a failure made up',
    (bytes) =>
      isStream(bytes) ? chunked('[{"kind":"failed","code":"engine.internal","message":"x","param":null}]') : bytes,
  ],
  ['a refusal made up', (bytes) => (isStream(bytes) ? refusal() : bytes)],
])('a change of an answer on the way is detected: %s', async (_name, tamper) => {
  const { network, model, logged } = await overNetwork();
  const honest = await all(model.generate(REQUEST, NEVER));
  network.answers = tamper;
  const read = await all(model.generate(REQUEST, NEVER));
  expect(read.at(-1)).toMatchObject({ kind: 'failed', code: 'engine.host_lost' });
  expect(read.slice(0, -1)).toEqual(honest.slice(0, read.length - 1));
  expect(logged.join('\n')).toContain('a proxy in between');
});

test('an answer is valid only for its own request, and frames cannot repeat or change order', async () => {
  const { network, inference, model } = await overNetwork();
  let heard: Buffer | null = null;
  inference.script = async function* (asked) {
    yield { kind: 'started', promptTokenIds: [], cachedTokens: 0 };
    for (let id = 0; id < 4; id++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      yield { kind: 'delta', index: 0, text: asked.requestId, tokenIds: [id], logprobs: null };
    }
    yield {
      kind: 'finished',
      index: 0,
      text: '',
      tokenIds: [],
      logprobs: null,
      finishReason: 'stop',
      stopReason: null,
    };
    yield { kind: 'completed', usage: { promptTokens: 0, completionTokens: 4, cachedTokens: 0 } };
  };
  const deltas: Buffer[] = [];
  network.answers = (bytes) => {
    if (isStream(bytes)) heard ??= bytes;
    if (bytes.includes('"delta"')) deltas.push(bytes);
    return bytes;
  };
  await all(model.generate({ ...REQUEST, requestId: 'first' }, NEVER));
  expect(deltas.length).toBeGreaterThan(2);
  const attacks: Tamper[] = [
    () => heard,
    (bytes) => (bytes.includes('"delta"') ? Buffer.concat([bytes, bytes]) : bytes),
    (bytes) => (bytes.includes('"delta"') ? deltas[2]! : bytes),
    (bytes) => (bytes.includes('"tokenIds":[1]') ? Buffer.alloc(0) : bytes),
  ];
  for (const attack of attacks) {
    network.answers = (bytes) => bytes;
    await vi.waitFor(
      async () =>
        expect((await all(model.generate({ ...REQUEST, requestId: 'well' }, NEVER))).at(-1)?.kind).toBe('completed'),
      60_000,
    );
    network.answers = (bytes) => (isStream(bytes) ? attack(bytes) : bytes);
    const read = await all(model.generate({ ...REQUEST, requestId: 'second' }, NEVER));
    expect(read.at(-1)).toMatchObject({ kind: 'failed', code: 'engine.host_lost' });
    expect(JSON.stringify(read)).not.toContain('first');
  }
});

test('an answer whose end is cut off after the last event still completes', async () => {
  const { network, model } = await overNetwork();
  network.answers = (bytes) => {
    const at = isStream(bytes) ? bytes.lastIndexOf('0\r\n\r\n') : -1;
    return at < 0 ? bytes : bytes.subarray(0, at);
  };
  expect((await all(model.generate(REQUEST, NEVER))).at(-1)?.kind).toBe('completed');
});

test('a flood instead of an answer takes little memory', async () => {
  const { network, model } = await overNetwork();
  let numBytes = 0;
  network.answers = (bytes) => {
    if (!isStream(bytes)) return bytes;
    const flood = Buffer.alloc(8_000_000, 97);
    numBytes += flood.length;
    return Buffer.concat([Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 250000000\r\n\r\n'), flood]);
  };
  expect((await all(model.generate(REQUEST, NEVER))).at(-1)).toMatchObject({ kind: 'failed' });
  expect(numBytes).toBeLessThan(20_000_000);
});

test('silent and dripping connections are closed', async () => {
  const { url } = await engine({ headMs: 200 });
  const port = Number(new URL(url).port);
  const sockets = Array.from({ length: 200 }, () =>
    connect(port, '127.0.0.1')
      .on('error', () => undefined)
      .resume(),
  );
  // `once` would reject if a write fails while the connection ends.
  const closed = sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve)));
  const drip = setInterval(() => {
    for (const socket of sockets.slice(100)) if (!socket.destroyed) socket.write('X');
  }, 20);
  onTestFinished(() => clearInterval(drip));
  for (const socket of sockets.slice(100)) socket.write(`POST ${ENGINE_PATHS.hello} HTTP/1.1\r\nx-drip: `);
  expect(await Promise.all(closed)).toHaveLength(200);
});

test('a hello leaves no open connection', async () => {
  const { url } = await engine();
  const socket = connect(Number(new URL(url).port), '127.0.0.1').resume();
  const head = Object.entries(helloHeaders(url))
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  socket.write(`POST ${ENGINE_PATHS.hello} HTTP/1.1\r\nhost: x\r\n${head}content-length: 2\r\n\r\n{}`);
  await once(socket, 'close');
  expect(socket.bytesRead).toBeGreaterThan(0);
});

function chunked(events: string): Buffer {
  const text = `${'A'.repeat(43)}.${events}\n`;
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`,
  );
}

function refusal(): Buffer {
  const fault = {
    kind: 'request',
    code: 'request.invalid',
    message: 'x',
    param: null,
    headers: { 'set-cookie': 'a=b' },
  };
  const text = `${'A'.repeat(43)}.${JSON.stringify(fault)}\n`;
  return Buffer.from(`HTTP/1.1 422 X\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
}

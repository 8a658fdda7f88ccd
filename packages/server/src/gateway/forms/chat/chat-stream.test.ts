import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { ErrorBody } from '@trainyard/protocol';

import { failure, replies, ScriptedInference } from '../../../testing/scripted-inference.ts';
import { readEvents, TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
const scripted = new ScriptedInference();
beforeAll(async () => {
  server = await TestServer.start();
  await server.addCheckpoint(await server.makeModel('agent'), 'b');
});
afterEach(() => {
  server.inference.script = scripted.script;
});
afterAll(() => server.close());

async function stream(fields: Record<string, unknown>) {
  const response = await server.chat({ ...fields, stream: true });
  return { response, ...readEvents(response.body) };
}

test('a stream is a role chunk, deltas, a finish chunk and [DONE], with the keys that belong there', async () => {
  const { response, events, isDone } = await stream({ request_id: 'abc' });
  expect(response.statusCode).toBe(200);
  expect(response.headers['content-type']).toBe('text/event-stream; charset=utf-8');
  expect(response.headers['x-request-id']).toMatch(/^[0-9a-f]{32}$/);
  const head = { id: 'chatcmpl-abc', object: 'chat.completion.chunk', created: expect.any(Number), model: 'tiny/base' };
  expect(events).toEqual([
    {
      ...head,
      choices: [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: null, finish_reason: null }],
      prompt_token_ids: null,
      prompt_text: null,
    },
    {
      ...head,
      choices: [{ index: 0, delta: { content: 'hi' }, logprobs: null, finish_reason: null, token_ids: null }],
    },
    {
      ...head,
      choices: [
        { index: 0, delta: { content: '' }, logprobs: null, finish_reason: 'stop', token_ids: null, stop_reason: null },
      ],
      system_fingerprint: 'trainyard-base',
    },
  ]);
  expect(isDone).toBe(true);
});

test('a trained model streams its tokens and log-probabilities, each once', async () => {
  const { events } = await stream({ model: 'agent', n: 2 });
  const roles = events.filter((event) => event.choices?.[0]?.delta.role);
  expect(roles.map((event) => event.choices?.[0]?.index)).toEqual([0, 1]);
  expect(events.indexOf(roles[1] ?? {})).toBe(1);
  for (const index of [0, 1]) {
    const own = events.flatMap((event) => event.choices ?? []).filter((choice) => choice.index === index);
    expect(own.flatMap((choice) => choice.token_ids ?? [])).toEqual([5, 6, 2]);
    expect(own.flatMap((choice) => choice.logprobs?.content ?? []).map((entry) => entry.token)).toEqual([
      'token_id:5',
      'token_id:6',
      'token_id:2',
    ]);
    expect(own.map((choice) => choice.delta.content ?? '').join('')).toBe('hi');
    expect(own.map((choice) => choice.finish_reason)).toEqual([null, null, 'stop']);
  }
  expect(new Set(events.map((event) => event.model))).toEqual(new Set(['acme/demo/agent:step1']));
  expect(events.at(-1)?.system_fingerprint).toBe('trainyard-bbbbbbbb');
});

test('prompt_token_ids come in the role chunk only, when asked for', async () => {
  const { events } = await stream({ return_token_ids: true });
  expect(events.map((event) => event.prompt_token_ids)).toEqual([[1, 2, 3], undefined, undefined]);
});

test('include_usage adds one last chunk; continuous_usage_stats counts each choice on the way', async () => {
  const last = await stream({ stream_options: { include_usage: true } });
  expect(last.events.map((event) => event.usage)).toEqual([
    undefined,
    undefined,
    undefined,
    { prompt_tokens: 3, total_tokens: 6, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 2 } },
  ]);
  expect(last.events.at(-1)?.choices).toEqual([]);
  const running = await stream({ n: 2, stream_options: { include_usage: true, continuous_usage_stats: true } });
  expect(running.events.map((event) => event.usage?.completion_tokens)).toEqual([0, 0, 2, 2, 3, 3, 6]);
  const alone = await stream({ stream_options: { continuous_usage_stats: true } });
  expect(alone.events.every((event) => event.usage === undefined)).toBe(true);
  const none = await stream({ stream_options: {} });
  expect(none.events.every((event) => event.usage === undefined)).toBe(true);
});

test('a step with neither text nor tokens sends nothing', async () => {
  server.inference.script = (request) =>
    replies(request, [
      { ids: [], text: '' },
      { ids: [7], text: '' },
    ]);
  const { events } = await stream({});
  expect(events).toHaveLength(3);
});

test('tokens without text are sent, and a chunk has the log-probabilities of its own tokens', async () => {
  server.inference.script = (request) =>
    replies(request, [
      { ids: [7], text: '' },
      { ids: [8, 9], text: 'abc' },
    ]);
  const { events } = await stream({ logprobs: true, return_token_ids: true });
  const outputs = events.flatMap((event) => event.choices ?? []).slice(1);
  expect(outputs.map((output) => [output.delta, output.token_ids])).toEqual([
    [{ content: '' }, [7]],
    [{ content: 'abc' }, [8, 9]],
    [{ content: '' }, [2]],
  ]);
  expect(outputs.map((output) => output.logprobs?.content.map((entry) => entry.token))).toEqual([
    ['<7>'],
    ['<8>', '<9>'],
    ['<2>'],
  ]);
});

test('choices interleave as they come; one that ended is silent', async () => {
  server.inference.script = function* () {
    const delta = { kind: 'delta', logprobs: null } as const;
    const finished = { kind: 'finished' as const, text: '', tokenIds: [2], logprobs: null, stopReason: null };
    yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
    yield { ...delta, index: 1, text: 'b', tokenIds: [9] };
    yield { ...finished, index: 1, finishReason: 'stop', stopReason: 7 };
    yield { ...delta, index: 0, text: 'a', tokenIds: [8, 8] };
    yield { ...finished, index: 0, finishReason: 'length' };
    yield { kind: 'completed', usage: { promptTokens: 1, completionTokens: 5, cachedTokens: 0 } };
  };
  const { events } = await stream({ n: 2, stream_options: { include_usage: true, continuous_usage_stats: true } });
  expect(
    events.map(({ choices: [choice] = [], usage }) => [choice?.index, choice?.finish_reason, usage?.completion_tokens]),
  ).toEqual([
    [0, null, 0],
    [1, null, 0],
    [1, null, 1],
    [1, 'stop', 2],
    [0, null, 2],
    [0, 'length', 3],
    [undefined, undefined, 5],
  ]);
  expect(events.map((event) => event.choices?.[0] && 'stop_reason' in event.choices[0])).toEqual([
    false,
    false,
    false,
    true,
    false,
    true,
    undefined,
  ]);
  expect(events[3]?.choices?.[0]?.stop_reason).toBe(7);
});

test('the fingerprint is in the usage chunk, or without one in the finish chunks', async () => {
  const withUsage = await stream({ n: 2, stream_options: { include_usage: true } });
  expect(withUsage.events.map((event) => event.system_fingerprint)).toEqual([
    ...Array.from({ length: 6 }, () => undefined),
    'trainyard-base',
  ]);
  const without = await stream({ n: 2 });
  expect(without.events.map((event) => event.system_fingerprint)).toEqual([
    ...Array.from({ length: 4 }, () => undefined),
    'trainyard-base',
    'trainyard-base',
  ]);
});

test('a failure after the first output is one error event, then [DONE]', async () => {
  server.inference.script = function* () {
    yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
    yield { kind: 'delta', index: 0, text: 'a', tokenIds: [9], logprobs: null };
    yield failure('engine.host_lost', 'the engine stopped');
  };
  const { response, events, isDone } = await stream({});
  expect(response.statusCode).toBe(200);
  expect(events.at(-1)).toEqual({
    error: { message: 'the engine stopped', type: 'server_error', param: null, code: 'engine.host_lost' },
  });
  expect(events.some((event) => event.choices?.[0]?.finish_reason)).toBe(false);
  expect(isDone).toBe(true);
});

test('a failure between admission and the first output is still a plain HTTP error', async () => {
  server.inference.script = function* () {
    yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
    yield failure('engine.overloaded', 'full');
  };
  const { response } = await stream({});
  expect(response.statusCode).toBe(429);
  expect(response.json<ErrorBody>().error.code).toBe('engine.overloaded');
});

/** A plain socket that reads only on demand, because clients read ahead. */
async function openStream(): Promise<{ port: number; socket: ReturnType<typeof connect> }> {
  if (!server.app.server.listening) await server.app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = server.app.server.address() as AddressInfo;
  const socket = connect(port, '127.0.0.1');
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'x' }], stream: true });
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${server.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  return { port, socket };
}

test('a reader that stops reading stops the source, and reading on wakes it', async () => {
  const numEvents = 20_000;
  server.inference.script = (request) =>
    replies(
      request,
      Array.from({ length: numEvents }, () => ({ ids: [1], text: 'x'.repeat(2000) })),
    );
  server.inference.numPulled = 0;
  const { socket } = await openStream();
  socket.pause();
  const stalledAt = await settled(() => server.inference.numPulled);
  // All would be 40 MB; kernel buffers hold a few.
  expect(stalledAt).toBeGreaterThan(0);
  expect(stalledAt).toBeLessThan(numEvents / 2);
  let tail = '';
  const done = new Promise<void>((resolve) => {
    socket.on('data', (data) => {
      tail = (tail + data.toString('latin1')).slice(-100);
      if (tail.includes('[DONE]')) resolve();
    });
  });
  socket.resume();
  await done;
  console.log(`backpressure: ${stalledAt} of ${numEvents + 3} events of 2 KB were pulled without a reader`);
  expect(server.inference.numPulled).toBe(numEvents + 3);
  socket.destroy();
}, 30_000);

test('a client that leaves ends the generation', async () => {
  let signal: AbortSignal | undefined;
  server.inference.numEnded = 0;
  server.inference.script = async function* (_request, given) {
    signal = given;
    yield { kind: 'started', promptTokenIds: [1], cachedTokens: 0 };
    for (;;) {
      yield { kind: 'delta', index: 0, text: 'x', tokenIds: [1], logprobs: null };
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const { socket } = await openStream();
  await new Promise((resolve) => socket.once('data', resolve));
  const leftAt = performance.now();
  socket.destroy();
  await until(() => server.inference.numEnded === 1);
  console.log(`disconnect: generation ended after ${(performance.now() - leftAt).toFixed(1)} ms`);
  expect(signal?.aborted).toBe(true);
});

/** Returns the value once it stayed the same for 200 ms. */
async function settled(read: () => number): Promise<number> {
  for (let last = -1; ;) {
    const now = read();
    if (now > 0 && now === last) return now;
    last = now;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function until(isTrue: () => boolean): Promise<void> {
  // The time limit of the test ends a condition that never holds.
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 2));
}

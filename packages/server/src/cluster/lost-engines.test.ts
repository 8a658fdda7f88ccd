/**
 * An engine dies while no part of its answer has reached a client: another one computes the answer, which is
 * counted and recorded once.
 */
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

import { expect, onTestFinished, test, vi } from 'vitest';

import { engineMember, MemberList, openEngines, openPort } from '../testing/behind-port.ts';
import { replies, ScriptedInference } from '../testing/scripted-inference.ts';
import { TestServer } from '../testing/test-server.ts';

const STEPS = [
  { ids: [5, 6], text: 'hi' },
  { ids: [7], text: ' you' },
];

/** A service on three engines; the first ones called die after that many events. */
async function withLosses(numEvents: number, { numDying = 1, hostOnly = false } = {}) {
  const engines = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const inference = new ScriptedInference();
      const { port, url } = await openPort(inference);
      onTestFinished(() => port.close());
      return { inference, port, url };
    }),
  );
  let numDead = 0;
  for (const { inference, port } of engines)
    inference.script = async function* (asked, signal) {
      const isDying = numDead < numDying;
      numDead += 1;
      let count = 0;
      for (const event of replies(asked, STEPS)) {
        if (isDying && count++ === numEvents) {
          if (hostOnly) return yield { kind: 'failed', code: 'engine.host_lost', message: 'it died', param: null };
          // Earlier events are in transit.
          await delay(100);
          void port.close();
          await once(signal, 'abort');
          return;
        }
        yield event;
      }
    };
  const members = new MemberList(engines.map(({ url }) => engineMember(url)));
  const pool = await openEngines(members);
  onTestFinished(() => pool.close());
  const server = await TestServer.startOn(pool);
  onTestFinished(() => server.close());
  const requests = () => engines.flatMap(({ inference }) => inference.requests);
  return { server, requests, usage: vi.spyOn(server.store.usage, 'record') };
}

test.each([{ numEvents: 1 }, { numEvents: 3 }, { numEvents: 5, n: 2 }, { numEvents: 3, hostOnly: true }])(
  'a whole answer is computed on another engine, with its seed, and counted once: $numEvents events in',
  async ({ numEvents, n = 1, hostOnly = false }) => {
    const { server, requests, usage } = await withLosses(numEvents, { hostOnly });
    const answer = await server.chat({ n, seed: 7 });
    expect([answer.statusCode, answer.body]).toEqual([200, expect.any(String)]);
    const { choices, usage: told } = answer.json<{
      choices: { message: { content: string } }[];
      usage: { completion_tokens: number };
    }>();
    expect(choices.map(({ message }) => message.content)).toEqual(Array.from({ length: n }, () => 'hi you'));
    const completionTokens = 4 * n;
    expect(told.completion_tokens).toBe(completionTokens);
    expect(requests().map(({ sampling }) => sampling.seed)).toEqual([7n, 7n]);
    expect(usage.mock.calls.map(([one]) => one)).toMatchObject([{ promptTokens: 3, completionTokens }]);
    const { body } = await server.app.inject('/metrics');
    expect(body).toMatch(new RegExp(`^vllm:request_generation_tokens_sum\\{[^}]*\\} ${completionTokens}$`, 'm'));
  },
);

test('a stream goes to another engine before its first token, and ends with one error after it', async () => {
  const early = await withLosses(1);
  const whole = await early.server.chat({ stream: true, seed: 7 });
  expect(whole.statusCode).toBe(200);
  expect(whole.body).toContain('hi');
  expect(whole.body).not.toContain('"error"');
  expect(early.requests()).toHaveLength(2);
  expect(early.usage.mock.calls).toMatchObject([[{ completionTokens: 4 }]]);

  const late = await withLosses(2);
  const cut = await late.server.chat({ stream: true });
  expect(cut.body).toContain('engine.host_lost');
  expect(late.requests()).toHaveLength(1);
});

test('an answer that two engines die of is tried on no third', async () => {
  const { server, requests } = await withLosses(3, { numDying: 2 });
  const answer = await server.chat();
  expect([answer.statusCode, answer.json<{ error: { code: string } }>().error.code]).toEqual([503, 'engine.host_lost']);
  expect(requests()).toHaveLength(2);
});

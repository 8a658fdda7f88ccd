/**
 * Random interleavings of requests, pauses, aborts and steps: counts stay right, every choice ends once, and
 * pauses change no reply.
 */
import { describe, expect, test } from 'vitest';
import { mixedLogits } from '../testing/scripted-logits.ts';
import { Harness, type HarnessRequest, request, type Transcript } from '../testing/token-harness.ts';

const NUM_ACTIONS = 400;
/** Few slots and cells, so that most pauses cost a sequence its place. */
const SIZES = { maxSequences: 8, capacityTokens: 320, contextLength: 128, batchTokens: 48 };
const LIMITS = { prefillTokens: 32, prefillTokensWhileDecoding: 12, maxCachedTokens: 80 };

/** mulberry32 */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

function randomRequest(random: (below: number) => number, name: string): HarnessRequest {
  const adapter = random(4) === 0 ? { digest: 'a', path: 'a' } : null;
  return request({
    tenant: `tenant ${random(3)}`,
    prompt: `${['one', 'two', 'three'][random(3)]} `.repeat(1 + random(8)) + name,
    n: 1 + random(6),
    maxTokens: 1 + random(24),
    priority: random(3) - 1,
    ignoreEos: true,
    adapter,
    promptLogprobs: random(5) === 0 ? 0 : null,
    sampling: { temperature: 1, seed: BigInt(random(1000)) },
  });
}

interface Sent {
  asked: HarnessRequest;
  reply: Transcript & { id: string };
  isAborted: boolean;
}

function play(seed: number, drawsOnDevice: boolean): Sent[] {
  const random = randomOf(seed);
  const harness = new Harness({ ...SIZES, limits: LIMITS, logits: mixedLogits, drawsOnDevice });
  const sent: Sent[] = [];
  const paused = new Set<string>();
  const pick = (): Sent | undefined => sent[random(Math.max(1, sent.length))];
  const setPaused = (id: string, isPaused: boolean): void => {
    if (isPaused) paused.add(id);
    else paused.delete(id);
    harness.engine.setPaused(id, isPaused);
    harness.check();
  };
  for (let i = 0; i < NUM_ACTIONS; i++) {
    const action = random(12);
    const some = pick();
    if (action === 0 && sent.length < 24) {
      const asked = randomRequest(random, String(sent.length));
      sent.push({ asked, reply: harness.submit(asked), isAborted: false });
    } else if (action <= 3 && some !== undefined) setPaused(some.reply.id, true);
    else if (action <= 5 && some !== undefined) setPaused(some.reply.id, false);
    else if (action === 6 && some !== undefined && random(6) === 0)
      some.isAborted = harness.engine.abort(some.reply.id) || some.isAborted;
    else harness.step();
  }
  for (const id of paused) setPaused(id, false);
  harness.run();
  expect(harness.engine.stats()).toMatchObject({ numRunning: 0, numWaiting: 0, numRequests: 0 });
  harness.engine.close();
  return sent;
}

/** Tokens of each choice of a request that runs alone and is never paused. */
function tokensAlone(asked: HarnessRequest): number[][] {
  const harness = new Harness({ ...SIZES, limits: LIMITS, logits: mixedLogits });
  const reply = harness.submit({ ...request(), ...asked, text: request().text });
  harness.run();
  harness.engine.close();
  return Array.from({ length: asked.n }, (_, index) => reply.tokenIds(index));
}

describe('sequences that are paused and resumed at random', { timeout: 60_000 }, () => {
  test.each(Array.from({ length: 24 }, (_, i) => i + 1))(
    'seed %i: every choice ends once, with the tokens it has alone',
    (seed) => {
      for (const { asked, reply, isAborted } of play(seed, seed % 3 === 0)) {
        const ends = reply.events.filter(({ kind }) => kind === 'completed' || kind === 'failed');
        expect(ends, asked.requestId).toHaveLength(1);
        const finished = reply.events.filter(({ kind }) => kind === 'finished');
        if (isAborted && ends[0]!.kind === 'failed') continue;
        expect(ends[0]!.kind).toBe('completed');
        expect(finished).toHaveLength(asked.n);
        const alone = tokensAlone(asked);
        for (const [index, tokens] of alone.entries()) expect(reply.tokenIds(index), `choice ${index}`).toEqual(tokens);
      }
    },
  );
});

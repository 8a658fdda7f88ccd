/**
 * Five hundred streams with prompts of 50 kB at once: each has one answer, another client is served, and
 * memory stays constant.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { MemoryWatch, type ProcessMemory } from '../../bench/crowd/memory-watch.ts';
import { longPrompt, WORDS } from '../../bench/crowd/prompts.ts';
import { countEnds, streamOnce, type StreamEnd } from '../../bench/crowd/streams.ts';
import type { OwnService } from '../../scripts/own-service.ts';
import { smallService } from '../support/small-service.ts';

const NUM_STREAMS = 500;
const PROMPT_BYTES = 50_000;
const MAX_TOKENS = 2;
/** The cache holds seven of the prompts at a time, and each new one replaces another. */
const SEEN_TOKENS = 64;
const CAPACITY_TOKENS = 512;
const TIMEOUT_MS = 600_000;

interface Crowd {
  readonly ends: readonly StreamEnd[];
  readonly memory: readonly ProcessMemory[];
  readonly beside: readonly StreamEnd[];
}

async function crowd(service: OwnService, firstIndex: number): Promise<Crowd> {
  const watch = new MemoryWatch(service.pid);
  const ends = Promise.all(
    Array.from({ length: NUM_STREAMS }, (_, index) =>
      streamOnce(service, {
        messages: [{ role: 'user', content: longPrompt(firstIndex + index, PROMPT_BYTES, WORDS) }],
        max_tokens: MAX_TOKENS,
        truncate_prompt_tokens: SEEN_TOKENS,
        ignore_eos: true,
        return_token_ids: true,
      }),
    ),
  );
  let isOver = false;
  void ends.then(() => (isOver = true));
  const beside: StreamEnd[] = [];
  while (!isOver)
    beside.push(await streamOnce(service, { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2 }));
  return { ends: await ends, memory: watch.stop(), beside };
}

const megabytes = (bytes: number) => Math.round(bytes / 1e6);

describe('below the limit of requests in flight', () => {
  let service: OwnService;
  beforeAll(async () => {
    service = await smallService({ environment: { TRAINYARD_CAPACITY_TOKENS: String(CAPACITY_TOKENS) } });
  }, TIMEOUT_MS);
  afterAll(async () => {
    await service.close();
  }, TIMEOUT_MS);

  it(
    'all are answered in full, and a second crowd takes no more memory than the first',
    async () => {
      const first = await crowd(service, 0);
      const second = await crowd(service, NUM_STREAMS);
      for (const { ends, beside, memory } of [first, second]) {
        console.log(memory.map(({ name, peak }) => `${name} at most ${megabytes(peak)} MB`).join(', '));
        expect(countEnds(ends)).toEqual({ '200 done': NUM_STREAMS });
        expect(new Set(ends.map(({ numTokens }) => numTokens))).toEqual(new Set([MAX_TOKENS]));
        expect(Object.keys(countEnds(beside))).toEqual(['200 done']);
      }
      for (const [index, { name, peak }] of second.memory.entries()) {
        const before = first.memory[index]!;
        expect(before.name).toBe(name);
        // Memory for 500 such prompts and their connections: the texts alone are 25 MB.
        expect(peak - before.first, name).toBeLessThan(350e6);
        // An engine reaches its final size by its fourth crowd, 110 MB above the first.
        expect(peak - before.peak, name).toBeLessThan(150e6);
      }
      expect((await fetch(`${service.url}/health`)).status).toBe(200);
    },
    TIMEOUT_MS,
  );
});

describe('above the limit of requests in flight', () => {
  const MAX_REQUESTS = 40;
  let service: OwnService;
  beforeAll(async () => {
    service = await smallService({
      environment: { TRAINYARD_CAPACITY_TOKENS: String(CAPACITY_TOKENS), TRAINYARD_MAX_REQUESTS: String(MAX_REQUESTS) },
    });
  }, TIMEOUT_MS);
  afterAll(async () => {
    await service.close();
  }, TIMEOUT_MS);

  it(
    'each is answered in full or gets 429 with a time to wait',
    async () => {
      const { ends } = await crowd(service, 0);
      const answered = ends.filter(
        ({ status, end, numTokens }) => status === 200 && end === 'done' && numTokens === MAX_TOKENS,
      );
      const refused = ends.filter(
        ({ status, retryAfter, end }) => status === 429 && Number(retryAfter) > 0 && end === 'refused',
      );
      expect(answered.length + refused.length, JSON.stringify(countEnds(ends))).toBe(NUM_STREAMS);
      expect(answered.length).toBeGreaterThanOrEqual(MAX_REQUESTS);
      expect(refused.length).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );
});

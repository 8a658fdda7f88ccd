/**
 * The engine on the decoder, over a tiny random model: a request's result depends only on the request, to the
 * last bit of its log-probabilities.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LlamaModel } from '@trainyard/native';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PagedDecoder } from '@trainyard/decoder';
import { byteTokenizer } from '../testing/scripted-logits.ts';
import { request, Transcript, type RequestOptions } from '../testing/token-harness.ts';
import { writeTestAdapter } from '../testing/write-test-adapter.ts';
import { TokenEngine } from './token-engine.ts';

const directory = mkdtempSync(join(tmpdir(), 'same-bits-'));
const modelPath = join(directory, 'tiny.gguf');
let adapterPath: string;
beforeAll(() => {
  writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);
  using model = LlamaModel.load(modelPath);
  adapterPath = writeTestAdapter(model, join(directory, 'adapter.gguf'), 0.5);
});
afterAll(() => rmSync(directory, { recursive: true }));

function answersOf(sizes: { capacityTokens: number; maxSequences: number }, requests: readonly RequestOptions[]) {
  const runner = PagedDecoder.open(modelPath, { ...sizes, batchTokens: 128, numThreads: 2 });
  const engine = new TokenEngine({ runner, ends: byteTokenizer, texts: byteTokenizer });
  const replies = requests.map((options, arrival) => {
    const { promptIds, text, ...asked } = request(options);
    const reply = new Transcript();
    engine.submit({
      request: asked,
      promptIds,
      text,
      arrival,
      isPaused: false,
      banned: [],
      reportsDraws: false,
      emit: reply.receive,
    });
    return reply;
  });
  while (engine.hasWork) {
    void engine.step();
    engine.checkIntegrity();
  }
  const { numPreemptions } = engine.stats();
  engine.close();
  const answers = replies.map((reply, i) =>
    Array.from({ length: requests[i]!.n ?? 1 }, (_, index) => [reply.tokenIds(index), reply.logprobs(index)]),
  );
  return { answers, numPreemptions };
}

const requests = (): RequestOptions[] =>
  Array.from({ length: 12 }, (_, i) => ({
    prompt: 'a shared beginning, then '.concat('xyz'[i % 3]!.repeat(1 + 5 * i)),
    n: 1 + (i % 3),
    maxTokens: 20 + 3 * i,
    logprobs: 3,
    sampling: { temperature: 1, seed: BigInt(i), ...(i % 4 === 0 ? { topP: 0.9 } : {}) },
    adapter: i % 2 === 0 ? null : { digest: 'one', path: adapterPath },
    tenant: `tenant ${i % 2}`,
  }));

test('a cache that holds next to nothing, preemption and eviction change no bit', () => {
  const large = answersOf({ capacityTokens: 8192, maxSequences: 64 }, requests());
  const tiny = answersOf({ capacityTokens: 200, maxSequences: 6 }, requests());
  console.log(`preemptions: ${large.numPreemptions} in the large cache, ${tiny.numPreemptions} in the tiny one`);
  expect(large.numPreemptions).toBe(0);
  expect(tiny.numPreemptions).toBeGreaterThan(0);
  expect(tiny.answers).toEqual(large.answers);
});

test('each request has the same bits alone and together with others', () => {
  const all = requests();
  const together = answersOf({ capacityTokens: 8192, maxSequences: 64 }, all);
  for (const [i, one] of all.entries())
    expect(answersOf({ capacityTokens: 8192, maxSequences: 64 }, [one]).answers[0]).toEqual(together.answers[i]);
});

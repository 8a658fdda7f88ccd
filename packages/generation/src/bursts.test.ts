/** Cost of a burst, counted in work instead of seconds: the numbers hold on any machine. */
import { Tokenizer } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import { expect, test } from 'vitest';
import { Harness } from './testing/text-harness.ts';

/** Counts the encoded prompts. */
class CountingTokenizer extends Tokenizer {
  numEncoded = 0;

  constructor() {
    super(new ByteVocabulary());
  }
  override encodeWithSpecial(text: string): Int32Array {
    this.numEncoded++;
    return super.encodeWithSpecial(text);
  }
}

const text = (content: string) => ({ kind: 'text', text: content, addSpecialTokens: false }) as const;
const SIZES = { maxSequences: 16, capacityTokens: 4096, contextLength: 512 };
const endless = { n: 16, maxTokens: null, ignoreEos: true, sampling: { temperature: 1, seed: null } } as const;

interface Cost {
  encoded: number;
  looks: number;
  steps: number;
}

/**
 * Submits a burst of requests with the maximum choices; all leave after some steps; then one asks for a
 * token.
 */
function burst(numRequests: number, numStepsBefore: number, tenantOf: (index: number) => string): Cost {
  const tokenizer = new CountingTokenizer();
  const harness = new Harness({ ...SIZES, tokenizer, limits: { maxRequests: 20_000 } });
  const { engine } = harness;
  const replies = Array.from({ length: numRequests }, (_, i) =>
    harness.submit({ ...endless, tenant: tenantOf(i), prompt: text(`number ${i}`) }),
  );
  for (let i = 0; i < numStepsBefore; i++) void engine.step();
  const looksBefore = engine.stats().numLooks;
  for (const { id } of replies) engine.abort(id);
  const next = harness.submit({ prompt: text('next'), tenant: 'next', maxTokens: 1 });
  let steps = 0;
  for (; next.completed === undefined; steps++) void engine.step();
  expect(replies.every(({ numEnds }) => numEnds === 1)).toBe(true);
  harness.check();
  expect(engine.stats()).toMatchObject({ numRequests: 0, numRunning: 0, numWaiting: 0 });
  return { encoded: tokenizer.numEncoded, looks: engine.stats().numLooks - looksBefore, steps };
}

test.each<[string, (index: number) => string]>([
  ['one tenant', () => 'crowd'],
  ['a tenant each', (index) => `crowd ${index}`],
])(
  'requests of %s that all left cost the next answer one step, however many there were',
  (_name, tenantOf) => {
    const curve = [100, 1_000, 10_000].map((count) => [count, burst(count, 3, tenantOf)] as const);
    console.log(`requests that left, and their cost: ${JSON.stringify(curve)}`);
    for (const [, { steps, looks, encoded }] of curve) {
      expect(steps).toBe(1);
      expect(looks).toBeLessThanOrEqual(4);
      // Of the waiting requests only the few of each step are encoded.
      expect(encoded).toBeLessThanOrEqual(5 * 16 + 1);
    }
  },
  120_000,
);

test('between two steps as many prompts are made as their characters allow', () => {
  const tokenizer = new CountingTokenizer();
  const harness = new Harness({ ...SIZES, tokenizer, limits: { maxRequests: 100 } });
  for (const length of [30_000, 10]) {
    for (let i = 0; i < 12; i++) harness.submit({ prompt: text('x'.repeat(length)), maxTokens: 1 });
    harness.engine.prepareSome();
    let made = 0;
    for (let before = -1; made > before;) {
      before = tokenizer.numEncoded;
      harness.engine.prepareSome();
      made = tokenizer.numEncoded;
      // One step's characters and the one prompt that exceeds them; or the maximum of small ones.
      expect(made - before).toBeLessThanOrEqual(length === 10 ? 16 : 3);
    }
  }
  expect(tokenizer.numEncoded).toBe(24);
});

test('admission looks at as many requests as run, not at all that wait', () => {
  const looksPerStep = [100, 1_000, 4_000].map((count) => {
    const harness = new Harness({ ...SIZES, limits: { maxRequests: 20_000 } });
    for (let i = 0; i < count; i++) harness.submit({ ...endless, n: 1, prompt: `number ${i}` });
    while (harness.engine.stats().numUnprepared > 0) harness.engine.prepareSome();
    expect(harness.engine.stats().numWaiting).toBe(count);
    for (let i = 0; i < 50; i++) void harness.engine.step();
    return harness.engine.stats().numLooks / 50;
  });
  console.log(`looks a step with 100, 1,000 and 4,000 requests waiting: ${looksPerStep.join(', ')}`);
  for (const looks of looksPerStep) expect(looks).toBeLessThanOrEqual(2);
}, 60_000);

test('paused requests are not polled, and continue when they are read again', () => {
  const harness = new Harness({ ...SIZES, limits: { maxRequests: 20_000 } });
  const replies = Array.from({ length: 2_000 }, (_, i) =>
    harness.submit({ n: 1, maxTokens: 1, prompt: `number ${i}` }),
  );
  while (harness.engine.stats().numUnprepared > 0) harness.engine.prepareSome();
  for (const { id } of replies) harness.engine.setPaused(id, true);
  expect(harness.engine.hasWork).toBe(false);
  const { id } = replies[1_500]!;
  harness.engine.setPaused(id, false);
  const before = harness.engine.stats().numLooks;
  harness.step();
  expect(replies[1_500]!.completed).toBeDefined();
  expect(harness.engine.stats().numLooks - before).toBe(1);
});

test('choices are made when their turn comes', () => {
  const harness = new Harness({ ...SIZES, limits: { maxRequests: 20_000, maxChoices: 16_384 } });
  const reply = harness.submit({ ...endless, n: 16_384, maxTokens: 100 });
  for (let i = 0; i < 20; i++) harness.step();
  expect(harness.engine.stats()).toMatchObject({ numRunning: 16, numWaiting: 16_384 - 16 });
  const rival = harness.submit({ tenant: 'rival', prompt: 'rival', maxTokens: 1 });
  harness.step();
  harness.step();
  expect(rival.completed).toBeDefined();
  expect(reply.failed).toBeUndefined();
});

test('more choices than the setting allows are refused, by default more than can run side by side', () => {
  const submit = (n: number, maxChoices?: number) =>
    new Harness({ ...SIZES, limits: maxChoices === undefined ? {} : { maxChoices } }).submit({ ...endless, n });
  expect(submit(16).failed).toBeUndefined();
  expect(submit(17).failed).toMatchObject({ code: 'engine.invalid_request', param: 'n' });
  expect(submit(17).failed!.message).toContain('[1, 16]');
  expect(submit(17, 100).failed).toBeUndefined();
  expect(submit(101, 100).failed).toMatchObject({ param: 'n' });
});

test('prompts of a burst are made a few a step, tenants in turns', () => {
  const tokenizer = new CountingTokenizer();
  const harness = new Harness({ ...SIZES, tokenizer, limits: { maxRequests: 20_000 } });
  for (let i = 0; i < 500; i++) harness.submit({ tenant: 'crowd', prompt: text(`${i}`), maxTokens: 1 });
  expect(tokenizer.numEncoded).toBe(16);
  const rival = harness.submit({ tenant: 'rival', prompt: text('rival'), maxTokens: 1 });
  const bad = harness.submit({ tenant: 'third', prompt: text('x'.repeat(600)) });
  harness.step();
  expect(tokenizer.numEncoded).toBe(32);
  expect(rival.completed).toBeDefined();
  expect(bad.failed?.code).toBe('context_length_exceeded');
});

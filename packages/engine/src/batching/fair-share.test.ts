/**
 * Bounds on the resources that one tenant can take from another, in engine steps: the numbers hold on any
 * machine.
 */
import { describe, expect, test } from 'vitest';
import { Harness, type RequestOptions, type Transcript } from '../testing/token-harness.ts';
import { mixedLogits, replying } from '../testing/scripted-logits.ts';

const CHUNK = 32;
const LIMITS = { prefillTokens: 64, prefillTokensWhileDecoding: CHUNK };
const SIZES = { maxSequences: 32, capacityTokens: 2048, contextLength: 1024, batchTokens: 256 };
const adapter = (name: string): { digest: string; path: string } => ({ digest: name, path: name });
const endless = { tenant: 'loud', maxTokens: null, ignoreEos: true, sampling: { temperature: 1, seed: null } } as const;

type Submitted = Transcript & { id: string };

function stepsToFirstToken(harness: Harness, reply: Transcript, maxSteps = 500): number {
  for (let steps = 0; steps <= maxSteps; steps++) {
    if (reply.tokenIds().length > 0) return steps;
    harness.step();
  }
  throw new Error(`no token in ${maxSteps} steps`);
}

/** Loads that may be running when a rival arrives. */
const LOADS: Record<string, (harness: Harness) => void> = {
  'nothing else': () => {},
  'one tenant with many requests': (harness) => {
    for (let i = 0; i < 200; i++) harness.submit({ ...endless, prompt: `loud ${i}` });
  },
  'one request with as many choices as are allowed': (harness) => {
    harness.submit({ ...endless, n: 32 });
  },
  'many requests of many choices each': (harness) => {
    for (let i = 0; i < 30; i++) harness.submit({ ...endless, n: 32, prompt: `loud ${i}` });
  },
  'urgent requests': (harness) => {
    for (let i = 0; i < 100; i++) harness.submit({ ...endless, priority: -1e9, prompt: `loud ${i}` });
  },
  'long prompts being prefilled': (harness) => {
    for (let i = 0; i < 50; i++) harness.submit({ ...endless, prompt: String(i).repeat(1000).slice(0, 1000) });
  },
  'long prompts being scored': (harness) => {
    for (let i = 0; i < 50; i++)
      harness.submit({ ...endless, promptLogprobs: 0, prompt: String(i).repeat(900).slice(0, 900) });
  },
  'other adapters taking turns': (harness) => {
    for (let i = 0; i < 64; i++) harness.submit({ ...endless, adapter: adapter(`a${i}`), prompt: `loud ${i}` });
  },
  'other adapters with long prompts': (harness) => {
    for (let i = 0; i < 64; i++)
      harness.submit({ ...endless, adapter: adapter(`a${i}`), prompt: String(i).repeat(600).slice(0, 600) });
  },
  'a full KV cache': (harness) => {
    for (let i = 0; i < 2; i++) harness.submit({ ...endless, prompt: String(i).repeat(1000) });
  },
  'a full KV cache of finished sequences': (harness) => {
    for (let i = 0; i < 60; i++) harness.submit({ ...endless, maxTokens: 1, prompt: `${i} `.repeat(100) });
  },
  'streams nobody reads': (harness) => {
    const replies = Array.from({ length: 40 }, (_, i) => harness.submit({ ...endless, prompt: `loud ${i}` }));
    for (let i = 0; i < 5; i++) harness.step();
    for (const { id } of replies) harness.engine.setPaused(id, true);
  },
  'many tenants, each with streams that are not read': (harness) => {
    const replies = Array.from({ length: 40 }, (_, i) =>
      harness.submit({ ...endless, tenant: `loud ${i}`, prompt: `loud ${i}` }),
    );
    for (let i = 0; i < 5; i++) harness.step();
    for (const { id } of replies) harness.engine.setPaused(id, true);
  },
  'many tenants with streams that are read a little at a time': (harness) => {
    const replies = Array.from({ length: 32 }, (_, i) =>
      harness.submit({ ...endless, tenant: `loud ${i}`, prompt: `loud ${i}` }),
    );
    for (let i = 0; i < 5; i++) harness.step();
    for (const [i, { id }] of replies.entries()) harness.engine.setPaused(id, i % 8 !== 0);
  },
  'wide streams, mostly unread': (harness) => {
    const replies = Array.from({ length: 8 }, (_, i) => harness.submit({ ...endless, n: 16, prompt: `loud ${i}` }));
    for (let i = 0; i < 5; i++) harness.step();
    for (const { id } of replies.slice(1)) harness.engine.setPaused(id, true);
  },
  'beam searches': (harness) => {
    for (let i = 0; i < 20; i++)
      harness.submit({ ...endless, n: 10, prompt: `loud ${i}`, beamSearch: { lengthPenalty: 1 } });
  },
  'three tenants, each with more than fits': (harness) => {
    for (const tenant of ['a', 'b', 'c'])
      for (let i = 0; i < 40; i++)
        harness.submit({
          ...endless,
          tenant,
          n: 8,
          adapter: adapter(`${tenant}${i % 3}`),
          prompt: `${tenant} ${i} `.repeat(20),
        });
  },
};

describe('the first token of a rival comes within two steps of its prefill', { timeout: 120_000 }, () => {
  const rivals: Record<string, RequestOptions> = {
    'a short prompt': { prompt: 'rival' },
    'a prompt of five chunks': { prompt: 'r'.repeat(5 * CHUNK) },
    'an adapter of its own': { prompt: 'r'.repeat(2 * CHUNK), adapter: adapter('rival') },
  };
  for (const [load, begin] of Object.entries(LOADS)) {
    test.each(Object.entries(rivals))(`next to ${load}: %s`, (_name, rival) => {
      // Tenants that arrive together wait for each other's first tokens.
      for (const numStepsBefore of load.startsWith('three') ? [5, 40] : [0, 1, 5, 40]) {
        const harness = new Harness({ ...SIZES, limits: LIMITS, logits: mixedLogits });
        begin(harness);
        for (let i = 0; i < numStepsBefore; i++) harness.step();
        const reply = harness.submit({ ...rival, tenant: 'rival', maxTokens: 1 });
        const numChunks = Math.ceil((rival.prompt as string).length / CHUNK);
        expect(stepsToFirstToken(harness, reply), `after ${numStepsBefore} steps`).toBeLessThanOrEqual(numChunks + 2);
        harness.engine.close();
      }
    });
  }
});

test('a request of one choice goes in next to one with as many choices as are allowed, of the same tenant', () => {
  const harness = new Harness({ ...SIZES, limits: LIMITS });
  harness.submit({ ...endless, n: 32, maxTokens: 300 });
  for (let i = 0; i < 5; i++) harness.step();
  const other = harness.submit({ ...endless, prompt: 'other', maxTokens: 1 });
  expect(stepsToFirstToken(harness, other)).toBeLessThanOrEqual(3);
});

test.each([
  ['streams', { n: 1 }, 32],
  ['wide streams', { n: 16 }, 8],
])(
  'paused %s give their places to a request of the same tenant, also while one of them is read',
  (_name, wide, count) => {
    const harness = new Harness({ ...SIZES, limits: LIMITS });
    const replies = Array.from({ length: count }, (_, i) =>
      harness.submit({ ...endless, ...wide, prompt: `loud ${i}` }),
    );
    for (let i = 0; i < 8; i++) harness.step();
    for (const { id } of replies.slice(1)) harness.engine.setPaused(id, true);
    const other = harness.submit({ ...endless, prompt: 'other', maxTokens: 1 });
    expect(stepsToFirstToken(harness, other)).toBeLessThanOrEqual(3);
  },
);

test('a step of a newcomer computes a few tokens of others, in turns', () => {
  const harness = new Harness({
    ...SIZES,
    maxSequences: 128,
    batchTokens: 512,
    capacityTokens: 16_384,
    limits: LIMITS,
  });
  const loud = Array.from({ length: 8 }, (_, i) => harness.submit({ ...endless, n: 16, prompt: `loud ${i}` }));
  for (let i = 0; i < 40; i++) harness.step();
  expect(harness.runner.batchSizes.at(-1), 'alone').toBe(128);
  const before = loud.map((reply) => reply.tokenIds().length);
  harness.submit({ ...endless, tenant: 'rival', prompt: 'rival', maxTokens: 40 });
  const [first, ...others] = Array.from({ length: 40 }, () => {
    harness.step();
    return harness.runner.batchSizes.at(-1)!;
  });
  expect(first, 'with the prompt').toBeLessThanOrEqual('rival'.length + 32);
  expect(Math.max(...others)).toBe(32);
  const gains = loud.map((reply, i) => reply.tokenIds().length - before[i]!);
  console.log(`tokens of eight wide streams next to a rival in 40 steps: ${gains.join(', ')}`);
  expect(Math.max(...gains) - Math.min(...gains)).toBeLessThanOrEqual(16);
});

test('tenants that want more than the capacity get equal parts, for any load of each', () => {
  const harness = new Harness({ ...SIZES, limits: LIMITS });
  const numTokens = new Map<string, number>();
  const count = (tenant: string, replies: Submitted[]): void =>
    void numTokens.set(
      tenant,
      replies.reduce((sum, reply) => sum + reply.events.length, 0),
    );
  const many = Array.from({ length: 60 }, (_, i) =>
    harness.submit({ ...endless, tenant: 'many', prompt: `many ${i}`, maxTokens: 30 }),
  );
  const wide = Array.from({ length: 8 }, (_, i) =>
    harness.submit({ ...endless, tenant: 'wide', n: 16, prompt: `wide ${i}`, maxTokens: 30 }),
  );
  const urgent = Array.from({ length: 60 }, (_, i) =>
    harness.submit({ ...endless, tenant: 'urgent', priority: -5, prompt: `urgent ${i}`, maxTokens: 30 }),
  );
  for (let i = 0; i < 80; i++) harness.step();
  for (const [tenant, replies] of Object.entries({ many, wide, urgent })) count(tenant, replies);
  const counts = [...numTokens.values()];
  console.log(`events of three tenants after 80 steps: ${JSON.stringify([...numTokens])}`);
  expect(Math.max(...counts) / Math.min(...counts)).toBeLessThan(1.25);
});

test('while a newcomer is served first, streams of others continue', () => {
  const harness = new Harness({ ...SIZES, limits: LIMITS, logits: replying('z'.repeat(2000), 4) });
  const steady = harness.submit({ ...endless, tenant: 'steady', prompt: 'text', adapter: adapter('steady') });
  for (let i = 0; i < 5; i++) harness.step();
  // One newcomer after the other, each with its own adapter and a long prompt.
  let waited = 0;
  let longest = 0;
  for (let i = 0; i < 150; i++) {
    if (i % 30 === 0)
      harness.submit({
        ...endless,
        tenant: `new ${i}`,
        adapter: adapter(`new ${i}`),
        prompt: `${i}`.repeat(300),
        maxTokens: 1,
      });
    const before = steady.events.length;
    harness.step();
    waited = steady.events.length > before ? 0 : waited + 1;
    longest = Math.max(longest, waited);
  }
  expect(steady.completed).toBeUndefined();
  console.log(`a steady stream waited at most ${longest} steps next to newcomers of 300 to 900 tokens`);
  expect(longest).toBeLessThanOrEqual(30);
});

test('the cached tokens of one tenant do not push out those of another', () => {
  const harness = new Harness({ ...SIZES, limits: { maxCachedTokens: 300 }, logits: replying('', 50) });
  const cachedOf = (tenant: string, letter: string): number => {
    const reply = harness.submit({ tenant, prompt: letter.repeat(50), maxTokens: 1 });
    harness.run();
    return reply.started!.cachedTokens;
  };
  cachedOf('small', 's');
  for (const letter of 'abcdefghijkl') cachedOf('large', letter);
  expect(cachedOf('small', 's')).toBe(49);
});

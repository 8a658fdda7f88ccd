import { expect, test } from 'vitest';

import { cacheSize, cachedValues } from './cache-size.ts';

const of = (fields: Record<string, unknown>) =>
  cachedValues(
    new Map([
      ['general.architecture', 'x'],
      ...Object.entries(fields).map(([key, value]) => [`x.${key}`, value] as const),
    ] as [string, never][]),
  );
const sizes = { block_count: 30, embedding_length: 576, 'attention.head_count': 9 };

test('keys and values of a token are counted over layers and key heads', () => {
  // SmolLM2-135M: 16,384 tokens in half precision take 377 MB.
  expect(of({ ...sizes, 'attention.head_count_kv': 3 }) * 2 * 16_384).toBe(377_487_360);
});

test('heads may have sizes of their own, and layers numbers of heads', () => {
  expect(of({ ...sizes, 'attention.head_count_kv': 3, 'attention.key_length': 128 })).toBe(30 * 3 * (128 + 64));
  expect(of({ ...sizes, 'attention.head_count_kv': [3, 0, 1] })).toBe(4 * 128);
  expect(of({ ...sizes, block_count: 2n })).toBe(2 * 9 * 128);
});

test('a number of heads that a file repeats for each layer is that number', () => {
  expect(of({ ...sizes, 'attention.head_count': [9, 9, 9], 'attention.head_count_kv': 3 })).toBe(30 * 3 * 128);
});

test('without sizes of attention there is nothing to cache', () => {
  expect(of({ block_count: 4 })).toBe(0);
});

const METADATA = new Map<string, never>(
  Object.entries({ ...sizes, 'attention.head_count_kv': 3 })
    .map(([key, value]) => [`x.${key}`, value] as [string, never])
    .concat([['general.architecture', 'x' as never]]),
);
const GRAPHS = { runner: 'graphs', path: '' } as const;
const LLAMA = { runner: 'llama', path: '', cachePrecision: 'f16', flashAttention: false } as const;
const MEGABYTES_PER_TOKEN = 0.04608;

test('a cache has as many tokens as are asked for, 16,384 by default, and pages for each sequence', () => {
  const some = cacheSize(
    GRAPHS,
    { metadata: METADATA, hasRecurrentState: false },
    { capacityTokens: 1000, maxSequences: 8 },
  );
  expect(some).toEqual({ capacityTokens: 1000, contextLength: 1000, sizeBytes: (62 + 15) * 16 * 46_080 });
  expect(
    cacheSize(LLAMA, { metadata: METADATA, hasRecurrentState: false }, { capacityTokens: 1000, maxSequences: 8 }),
  ).toEqual({
    capacityTokens: 1000,
    contextLength: 1023,
    // A quarter as many may be on the shelf.
    sizeBytes: (1024 + 256) * 23_040,
  });
  expect(
    cacheSize(GRAPHS, { metadata: METADATA, hasRecurrentState: false }, { capacityTokens: null, maxSequences: 8 })
      .capacityTokens,
  ).toBe(16_384);
});

test('llama.cpp keeps the cache of a model with two sets of rope factors within the context of the short ones', () => {
  const phi3 = new Map<string, never>([
    ...METADATA.entries().map(([key, value]) => [key.replace('x.', 'phi3.'), value] as const),
    ['general.architecture', 'phi3' as never],
    ['phi3.rope.scaling.attn_factor', 1.19 as never],
    ['phi3.rope.scaling.original_context_length', 4096 as never],
  ]);
  const tokensOf = (served: typeof GRAPHS | typeof LLAMA, cacheBytes: number | null) =>
    cacheSize(
      served,
      { metadata: phi3, hasRecurrentState: false },
      { capacityTokens: null, cacheBytes, maxSequences: 8 },
    ).capacityTokens;
  expect([tokensOf(LLAMA, null), tokensOf(LLAMA, 4e9), tokensOf(GRAPHS, null)]).toEqual([4096, 4096, 16_384]);
});

test('our decoder keeps states of gated delta nets at intervals and of sequences; keys and values are of the other layers', () => {
  const qwen35 = new Map<string, never>([
    ...METADATA,
    ['x.block_count', 8 as never],
    ['x.full_attention_interval', 4 as never],
    ['x.ssm.group_count', 2 as never],
    ['x.ssm.time_step_rank', 4 as never],
    ['x.ssm.state_size', 16 as never],
    ['x.ssm.inner_size', 64 as never],
    ['x.ssm.conv_kernel', 4 as never],
  ]);
  const bytesOf = (served: typeof GRAPHS | typeof LLAMA) => {
    const { sizeBytes } = cacheSize(
      served,
      { metadata: qwen35, hasRecurrentState: true },
      { capacityTokens: 1100, maxSequences: 8 },
    );
    return sizeBytes;
  };
  const state = 4 * 16 * 16 + 3 * (2 * 2 * 16 + 64);
  expect(bytesOf(GRAPHS)).toBe((68 + 15) * 16 * 4 * 2 * (2 * 3 * 64) + (2 + 2 * 8) * 6 * 4 * state);
  expect(bytesOf(LLAMA)).toBe(1280 * 2 * 2 * (2 * 3 * 64));
});

test('our decoder keeps inputs of convolutions for each token, llama.cpp only the last', () => {
  const lfm2 = new Map<string, never>([
    ...METADATA,
    ['x.attention.head_count_kv', [0, 3, 0, 0] as never],
    ['x.shortconv.l_cache', 3 as never],
  ]);
  const bytesOf = (served: typeof GRAPHS | typeof LLAMA) => {
    const { sizeBytes } = cacheSize(
      served,
      { metadata: lfm2, hasRecurrentState: true },
      { capacityTokens: 1000, maxSequences: 8 },
    );
    return sizeBytes;
  };
  expect(bytesOf(GRAPHS)).toBe((62 + 15) * 16 * 4 * (2 * 3 * 64 + 3 * 576));
  // Nothing is on a shelf.
  expect(bytesOf(LLAMA)).toBe(1024 * 2 * 2 * 3 * 64);
});

test.each([GRAPHS, LLAMA])('or as many as a number of bytes holds, never more: $runner', (served) => {
  for (const megabytes of [30, 50, 77, 400, 1000]) {
    const limits = { capacityTokens: null, cacheBytes: megabytes * 1e6, maxSequences: 8 };
    const { capacityTokens, sizeBytes } = cacheSize(served, { metadata: METADATA, hasRecurrentState: false }, limits);
    expect(sizeBytes).toBeLessThanOrEqual(megabytes * 1e6);
    expect(sizeBytes).toBeGreaterThan((megabytes - 600 * MEGABYTES_PER_TOKEN) * 1e6);
    // The smaller of two limits applies.
    const both = cacheSize(
      served,
      { metadata: METADATA, hasRecurrentState: false },
      { ...limits, capacityTokens: 300 },
    );
    expect(both.capacityTokens).toBe(Math.min(300, capacityTokens));
  }
});

test('bytes for less than 256 tokens are refused with the needed bytes', () => {
  expect(() =>
    cacheSize(
      GRAPHS,
      { metadata: METADATA, hasRecurrentState: false },
      { capacityTokens: null, cacheBytes: 50e6, maxSequences: 128 },
    ),
  ).toThrow(
    'a cache of 50 MB holds fewer than 256 tokens of this model with 128 sequences: it needs 200 MB (raise --cache-megabytes, or lower --max-sequences)',
  );
});

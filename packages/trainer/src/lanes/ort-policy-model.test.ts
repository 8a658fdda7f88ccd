import { afterEach, expect, test } from 'vitest';
import { type Architecture, LINEAR_NAMES, linearNames, type LoraConfig } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURE, TINY_ARCHITECTURES, tinyWeights } from '@trainyard/transformer/testing';
import type { OrtPolicyModelOptions } from './ort-policy-model.ts';
import { OrtPolicyModel } from './ort-policy-model.ts';
import type { ForwardOptions, PackedRow } from '../model/policy-model.ts';
import type { TinySequence } from '../testing/pack-trie.ts';
import { packTrie } from '../testing/pack-trie.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';

const LORA: LoraConfig = { rank: 3, alpha: 6, targets: LINEAR_NAMES, initSeed: 1 };
const open: OrtPolicyModel[] = [];
afterEach(() => {
  while (open.length > 0) open.pop()!.close();
});

/** Equal weights and adapters; only the computation differs. */
function tinyModel(
  options: OrtPolicyModelOptions = {},
  architecture: Architecture = TINY_ARCHITECTURE,
): OrtPolicyModel {
  const random = randomSource(11);
  const weights = tinyWeights(architecture, random);
  const model = new OrtPolicyModel(architecture, weights, {
    lora: { ...LORA, targets: linearNames(architecture) },
    numThreads: 1,
    ...options,
  });
  randomizeAdapter(model.lora, random);
  open.push(model);
  return model;
}

const random = randomSource(5);
const tokens = (length: number) =>
  Array.from({ length }, () => Math.floor(((random() + 1) / 2) * TINY_ARCHITECTURE.vocabSize));
const continued = (prefix: readonly number[], length: number, numPrompt = prefix.length): TinySequence => ({
  tokenIds: [...prefix, ...tokens(length)],
  numPrompt,
});

/** One with a shared prompt, a branch deep in an answer and an answer that is a prefix of another; one separate. */
function branchingGroups(): TinySequence[][] {
  const prompt = tokens(9);
  const first = continued(prompt, 7);
  const other = tokens(4);
  return [
    [
      first,
      continued(first.tokenIds.slice(0, 12), 5, prompt.length),
      { ...first, tokenIds: first.tokenIds.slice(0, 14) },
      continued(prompt, 3),
    ],
    [continued(other, 6), continued(other, 2)],
  ];
}

const lossWeights = (length: number) => {
  const weight = randomSource(3);
  return Float32Array.from({ length }, weight);
};

/** Σ weight · logprob and its gradient over every adapter tensor. */
async function passes(
  model: OrtPolicyModel,
  rows: readonly PackedRow[],
  weights: Float32Array,
  options: Pick<ForwardOptions, 'experts'> = {},
) {
  for (const tensor of model.lora.tensors) tensor.gradient.fill(0);
  const logprobs: number[] = [];
  const entropies: number[] = [];
  for (const row of rows) {
    const result = await model.forward(row, { ...options, keepForBackward: true });
    await model.backward(weights.slice(logprobs.length, logprobs.length + row.targets.length));
    logprobs.push(...result.logprobs);
    entropies.push(...result.entropies);
  }
  return { logprobs, entropies, gradient: model.lora.tensors.flatMap((tensor) => Array.from(tensor.gradient)) };
}

const maxDifference = (a: readonly number[], b: readonly number[]) => {
  expect(a.length).toBe(b.length);
  return a.reduce((worst, value, i) => Math.max(worst, Math.abs(value - b[i]!)), 0);
};

/** Windows that are shorter than the rows. */
const GEMMA3: Architecture = {
  ...TINY_ARCHITECTURES.gemma3,
  vocabSize: TINY_ARCHITECTURE.vocabSize,
  window: { tokens: 5, period: 3, ropeBase: 1000 },
};

const MIXTURE: Architecture = { ...TINY_ARCHITECTURES.qwen3moe, vocabSize: TINY_ARCHITECTURE.vocabSize };
const MIXED: Architecture = {
  ...MIXTURE,
  numLayers: 3,
  residualScale: 0.75,
  experts: { ...MIXTURE.experts!, normalisesShares: false, denseLayers: [1] },
};

/** More taps than one branch of a row has tokens. */
const CONVOLUTIONS: Architecture = {
  ...TINY_ARCHITECTURES.lfm2,
  vocabSize: TINY_ARCHITECTURE.vocabSize,
  convolution: { size: 4, layers: [0, 1, 3] },
};

/** More tokens than a chunk of states, and heads of two kinds. */
const DELTA_NETS: Architecture = { ...TINY_ARCHITECTURES.qwen35, vocabSize: TINY_ARCHITECTURE.vocabSize };

/** Any experts for each token, ascending. */
const someExperts = ({ experts, numLayers }: Architecture, { tokenIds }: PackedRow) =>
  Array.from({ length: numLayers }, (_, layer) => {
    if (experts === null) return null;
    const chosen = Array.from(tokenIds, (id, token) => {
      const first = (id + 3 * token + layer) % experts.count;
      const own = Array.from({ length: experts.used }, (__, i) => (first + i) % experts.count);
      return own.toSorted((a, b) => a - b);
    });
    return Int32Array.from(chosen.flat());
  });

const ARCHITECTURES: readonly [string, Architecture][] = [
  ['llama', TINY_ARCHITECTURE],
  ['qwen2 (biases)', { ...TINY_ARCHITECTURE, hasAttentionBias: true }],
  ['qwen3 (head norms)', { ...TINY_ARCHITECTURE, queryKeyNorm: 'head' }],
  ['gemma3 (windows, norms of outputs, GELU)', GEMMA3],
  ['granite (factors)', { ...TINY_ARCHITECTURES.granite, vocabSize: TINY_ARCHITECTURE.vocabSize }],
  [
    'phi3 (fused layers, partial rope, two sets of factors)',
    { ...TINY_ARCHITECTURES.phi4, vocabSize: TINY_ARCHITECTURE.vocabSize },
  ],
  ['smollm3 (layers without rope)', { ...TINY_ARCHITECTURE, unrotatedPeriod: 2 }],
  ['qwen3moe (experts)', MIXTURE],
  [
    'granitemoe (a feed-forward next to experts)',
    { ...TINY_ARCHITECTURES.granitemoe, vocabSize: TINY_ARCHITECTURE.vocabSize },
  ],
  [
    'gpt-oss (sinks, biases, windows)',
    {
      ...TINY_ARCHITECTURES['gpt-oss'],
      vocabSize: TINY_ARCHITECTURE.vocabSize,
      window: { tokens: 5, period: 2, ropeBase: null },
    },
  ],
  ['experts with shares among all, next to a dense layer', MIXED],
  ['lfm2 (convolutions)', CONVOLUTIONS],
  ['qwen35 (gated delta nets, output gates)', DELTA_NETS],
];

test.each(ARCHITECTURES)(
  '%s: the gradient of every kind of parameter equals finite differences',
  async (_, architecture) => {
    const model = tinyModel({}, architecture);
    const row = packTrie(branchingGroups());
    const weights = lossWeights(row.targets.length);
    // Other experts would be a jump.
    const options = { experts: someExperts(architecture, row) };
    await passes(model, [row], weights, options);
    const loss = async () =>
      (await model.forward(row, options)).logprobs.reduce((sum, logprob, i) => sum + logprob * weights[i]!, 0);
    const direction = randomSource(17);
    for (const linear of model.lora.config.targets) {
      for (const half of ['a', 'b'] as const) {
        // One random direction through the tensors of this kind in all layers: every element takes part.
        const tensors = model.lora.tensors.filter((tensor) => tensor.linear === linear && tensor.half === half);
        const steps = tensors.map((tensor) => Float32Array.from(tensor.value, direction));
        const analytic = tensors.reduce(
          (sum, { gradient }, t) => sum + gradient.reduce((part, g, i) => part + g * steps[t]![i]!, 0),
          0,
        );
        const originals = tensors.map((tensor) => tensor.value.slice());
        const shifted = async (epsilon: number) => {
          tensors.forEach(({ value }, t) =>
            value.forEach((_value, i) => (value[i] = originals[t]![i]! + epsilon * steps[t]![i]!)),
          );
          return await loss();
        };
        // Five-point stencil: truncation ε⁴, so that ε can be large enough to hide float32 rounding (about 1e-5 of
        // loss).
        // The loss curves more if a fused layer moves queries, keys and values at once, a convolution multiplies its
        // inputs, a gate is clamped, or small outputs of a gated delta net are normalised.
        const { hasFusedLinears, convolution, deltaNet, activation } = architecture;
        const usual = hasFusedLinears || activation === 'clamped' ? 4e-3 : 8e-3;
        const epsilon = deltaNet !== null ? 7e-4 : convolution !== null ? 2e-3 : usual;
        const numeric =
          (8 * ((await shifted(epsilon)) - (await shifted(-epsilon))) -
            ((await shifted(2 * epsilon)) - (await shifted(-2 * epsilon)))) /
          (12 * epsilon);
        await shifted(0);
        console.log(`${linear}.${half}: analytic ${analytic.toFixed(5)}, numeric ${numeric.toFixed(5)}`);
        expect(Math.abs(analytic - numeric)).toBeLessThan(4e-3 * Math.max(1, Math.abs(analytic)));
      }
    }
  },
);

test('the gradient of entropies equals finite differences, alone and together with that of log-probabilities', async () => {
  const model = tinyModel({ numThreads: 2 }, { ...TINY_ARCHITECTURE, vocabSize: 1100 });
  const row = packTrie(branchingGroups());
  const [ofLogprobs, ofEntropies] = [lossWeights(row.targets.length), Float32Array.from(row.targets, randomSource(8))];
  const loss = async () => {
    const { logprobs, entropies } = await model.forward(row);
    const weighted = (values: Float32Array, weights: Float32Array) =>
      values.reduce((sum, value, i) => sum + value * weights[i]!, 0);
    return weighted(logprobs, ofLogprobs) + weighted(entropies, ofEntropies);
  };
  const direction = randomSource(17);
  const steps = model.lora.tensors.map(({ value }) => Float32Array.from(value, direction));
  const originals = model.lora.tensors.map(({ value }) => value.slice());
  const shifted = async (epsilon: number) => {
    model.lora.tensors.forEach(({ value }, t) =>
      value.forEach((_value, i) => (value[i] = originals[t]![i]! + epsilon * steps[t]![i]!)),
    );
    return await loss();
  };
  for (const weights of [new Float32Array(ofLogprobs.length), ofLogprobs.slice()]) {
    ofLogprobs.set(weights);
    await shifted(0);
    for (const { gradient } of model.lora.tensors) gradient.fill(0);
    await model.forward(row, { keepForBackward: true, keepForEntropy: true });
    await model.backward(weights, { entropyGradient: ofEntropies });
    const analytic = model.lora.tensors.reduce(
      (sum, { gradient }, t) => sum + gradient.reduce((part, g, i) => part + g * steps[t]![i]!, 0),
      0,
    );
    const epsilon = 2e-3;
    const [near, far] = [
      (await shifted(epsilon)) - (await shifted(-epsilon)),
      (await shifted(2 * epsilon)) - (await shifted(-2 * epsilon)),
    ];
    const numeric = (8 * near - far) / (12 * epsilon);
    console.log(`analytic ${analytic.toFixed(4)}, numeric ${numeric.toFixed(4)}`);
    expect(Math.abs(analytic - numeric)).toBeLessThan(4e-3 * Math.max(1, Math.abs(analytic)));
    ofLogprobs.set(lossWeights(row.targets.length));
  }
});

test.each([
  ['llama', TINY_ARCHITECTURE],
  ['lfm2', CONVOLUTIONS],
  ['qwen35', DELTA_NETS],
])('%s: a packed row of several groups equals its sequences one by one', async (_, architecture) => {
  const groups = branchingGroups();
  const model = tinyModel({}, architecture);
  const packed = packTrie(groups);
  const separate = groups.flat().map((sequence) => packTrie([[sequence]]));
  const weights = lossWeights(packed.targets.length);
  expect(packed.tokenIds.length).toBeLessThan(separate.reduce((sum, row) => sum + row.tokenIds.length, 0));
  const one = await passes(model, [packed], weights);
  const many = await passes(model, separate, weights);
  const differences = {
    logprob: maxDifference(one.logprobs, many.logprobs),
    entropy: maxDifference(one.entropies, many.entropies),
    gradient: maxDifference(one.gradient, many.gradient),
  };
  console.log('packed against separate, max differences', differences);
  expect(Math.max(...Object.values(differences))).toBeLessThan(1e-4);
});

test.each([
  ['recomputing every layer', { memoryBudgetBytes: 0 }],
  ['keeping one layer of two', { memoryBudgetBytes: 100_000 }],
  ['query blocks of 3 tokens', { queryBlockTokens: 3 }],
  ['token-wise runs of 5 tokens', { chunkTokens: 5 }],
  ['two threads', { numThreads: 2 }],
  ['three threads, in many pieces', { numThreads: 3, chunkTokens: 3, queryBlockTokens: 4 }],
  ['three threads, recomputing every layer', { numThreads: 3, memoryBudgetBytes: 0 }],
  ['five threads, one of them without a thread of its own', { numThreads: 5 }],
] satisfies [string, OrtPolicyModelOptions][])('%s changes nothing', async (name, options) => {
  const row = packTrie(branchingGroups());
  const weights = lossWeights(row.targets.length);
  for (const architecture of [TINY_ARCHITECTURE, GEMMA3, MIXTURE, MIXED, CONVOLUTIONS, DELTA_NETS]) {
    const usual = await passes(tinyModel({}, architecture), [row], weights);
    const other = await passes(tinyModel(options, architecture), [row], weights);
    const logprob = maxDifference(usual.logprobs, other.logprobs);
    const largest = usual.gradient.reduce((most, value) => Math.max(most, Math.abs(value)), 10);
    const gradient = (10 * maxDifference(usual.gradient, other.gradient)) / largest;
    console.log(`${name}: max differences logprob ${logprob.toExponential(1)}, gradient ${gradient.toExponential(1)}`);
    expect(Math.max(logprob, gradient)).toBeLessThan(1e-4);
  }
});

const DEEP: Architecture = { ...TINY_ARCHITECTURE, numLayers: 5 };

test.each([1, 2, 3, 4])(
  '%d threads: however many of five layers are kept, the results are equal',
  async (numThreads) => {
    const row = packTrie(branchingGroups());
    const weights = lossWeights(row.targets.length);
    const sizes: number[] = [];
    const run = async (memoryBudgetBytes?: number) => {
      const model = tinyModel(
        { numThreads, chunkTokens: 7, ...(memoryBudgetBytes === undefined ? {} : { memoryBudgetBytes }) },
        DEEP,
      );
      const result = await passes(model, [row], weights);
      sizes.push(model.activationBytes);
      return result;
    };
    const all = await run();
    // Inputs of six layers, a shared set and two kept ones.
    const some = await run(4 * row.tokenIds.length * (6 * 32 + 3 * 256 + 2 * 16));
    const none = await run(0);
    expect(sizes[1]).toBeLessThan(sizes[0]!);
    expect(sizes[2]).toBeLessThan(sizes[1]!);
    expect(some).toEqual(all);
    expect(none).toEqual(all);
  },
);

test.each([1, 3])(
  '%d threads: trained tokens with long stretches of others between them equal separate rows',
  async (numThreads) => {
    // Every answer is followed by 50 untrained tokens, and another answer.
    const prompt = tokens(20);
    const sequences = [1, 2, 3].map(() => [...prompt, ...tokens(6), ...tokens(50), ...tokens(6)]);
    const isTrained = (position: number) => (position >= 20 && position < 26) || position >= 76;
    const only = (row: PackedRow): PackedRow => {
      const kept = [...row.sources.keys()].filter((i) => isTrained(row.positions[row.sources[i]!]! + 1));
      return {
        ...row,
        sources: Int32Array.from(kept, (i) => row.sources[i]!),
        targets: Int32Array.from(kept, (i) => row.targets[i]!),
      };
    };
    const rowOf = (all: number[][]) => only(packTrie([all.map((tokenIds) => ({ tokenIds, numPrompt: 20 }))]));
    const packed = rowOf(sequences);
    expect(packed.targets.length).toBe(36);
    const weights = lossWeights(36);
    const one = await passes(tinyModel({ numThreads, queryBlockTokens: 16 }), [packed], weights);
    const many = await passes(
      tinyModel(),
      sequences.map((tokenIds) => rowOf([tokenIds])),
      weights,
    );
    expect(maxDifference(one.logprobs, many.logprobs)).toBeLessThan(1e-4);
    expect(maxDifference(one.gradient, many.gradient)).toBeLessThan(1e-4);
  },
);

test.each([1, 2, 3])(
  '%d threads: after a pass that was cancelled at any turn, the next one is whole',
  async (numThreads) => {
    const row = packTrie([[continued(tokens(10), 700), continued(tokens(4), 500)]]);
    const weights = lossWeights(row.targets.length);
    const undisturbed = await passes(tinyModel({ numThreads }), [row], weights);
    const model = tinyModel({ numThreads });
    for (const cancelAt of [2, 3, 4]) {
      const controller = new AbortController();
      let [turns, held] = [0, 0];
      const gate = {
        acquire: async () => {
          turns++;
          if (turns === cancelAt) controller.abort(new Error('stop'));
          controller.signal.throwIfAborted();
          held++;
        },
        release: () => void held--,
        isWanted: true,
      };
      const options = { gate, signal: controller.signal };
      const pass = async () => {
        for (;;) {
          await model.forward(row, { ...options, keepForBackward: true });
          await model.backward(weights.slice(), options);
        }
      };
      await expect(pass()).rejects.toMatchObject({ code: 'trainer.cancelled' });
      expect([turns, held]).toEqual([cancelAt, 0]);
      expect(await passes(model, [row], weights)).toEqual(undisturbed);
    }
  },
);

test('activations stay inside the memory budget', async () => {
  const row = packTrie([[continued(tokens(10), 200)]]);
  const weights = lossWeights(row.targets.length);
  const keeping = tinyModel();
  const recomputing = tinyModel({ memoryBudgetBytes: 0 });
  await passes(keeping, [row], weights);
  await passes(recomputing, [row], weights);
  // Two layers keep two sets of q, k, v, o, x2, gate and up; or they share one, except for k and v.
  const shared = 4 * row.tokenIds.length * (32 + 32 + 32 + 64 + 64);
  expect(keeping.activationBytes - recomputing.activationBytes).toBe(shared * (TINY_ARCHITECTURE.numLayers - 1));
});

test('memory does not accumulate over rows', async () => {
  const rows = [200, 60, 210, 30, 205].map((length) => packTrie([[continued(tokens(10), length)]]));
  const model = tinyModel({ memoryBudgetBytes: 400_000 });
  const most = await Promise.all(
    rows.map(async (row) => {
      const alone = tinyModel({ memoryBudgetBytes: 400_000 });
      await passes(alone, [row], lossWeights(row.targets.length));
      return alone.activationBytes;
    }),
  );
  for (const row of rows) await passes(model, [row], lossWeights(row.targets.length));
  expect(model.activationBytes).toBe(Math.max(...most));
});

test.each([1, 2, 3])('the same row gives the same bits again on %d threads', async (numThreads) => {
  const row = packTrie(branchingGroups());
  const weights = lossWeights(row.targets.length);
  const first = await passes(tinyModel({ numThreads }), [row], weights);
  expect(await passes(tinyModel({ numThreads }), [row], weights)).toEqual(first);
});

test.each([1, 2])('%d threads: a reset policy computes the same as a new one', async (numThreads) => {
  const [row, longer] = [packTrie(branchingGroups()), packTrie([[continued(tokens(9), 30)], ...branchingGroups()])];
  const used = tinyModel({ numThreads });
  await passes(used, [row], lossWeights(row.targets.length));
  // In the middle of a row.
  await used.forward(longer, { keepForBackward: true });
  expect(used.restartAdapter({ ...LORA })).toBe(true);
  const fresh = new OrtPolicyModel(TINY_ARCHITECTURE, tinyWeights(TINY_ARCHITECTURE, randomSource(11)), {
    lora: LORA,
    numThreads,
  });
  open.push(fresh);
  const all = (model: OrtPolicyModel) => model.lora.tensors.flatMap(({ value, gradient }) => [...value, ...gradient]);
  expect(all(used)).toEqual(all(fresh));
  for (const model of [used, fresh]) randomizeAdapter(model.lora, randomSource(12));
  const weights = lossWeights(longer.targets.length);
  expect(await passes(used, [longer], weights)).toEqual(await passes(fresh, [longer], weights));
});

test('only the same adapter can be reset, and nothing that was cancelled or closed', async () => {
  const model = tinyModel();
  expect(model.restartAdapter({ ...LORA, rank: 4 })).toBe(false);
  expect(model.restartAdapter({ ...LORA, targets: ['q'] })).toBe(false);
  expect(model.restartAdapter(LORA)).toBe(true);
  const row = packTrie(branchingGroups());
  await expect(model.forward(row, { signal: AbortSignal.abort() })).rejects.toMatchObject({
    code: 'trainer.cancelled',
  });
  expect(model.restartAdapter(LORA)).toBe(false);
  const other = tinyModel();
  other.close();
  expect(other.restartAdapter(LORA)).toBe(false);
});

test('a row with fewer tokens than there are threads is computed', async () => {
  const row = packTrie([[{ tokenIds: [3, 1], numPrompt: 1 }]]);
  const one = await passes(tinyModel(), [row], Float32Array.of(1));
  const three = await passes(tinyModel({ numThreads: 3 }), [row], Float32Array.of(1));
  expect(maxDifference(one.logprobs, three.logprobs)).toBeLessThan(1e-6);
  expect(maxDifference(one.gradient, three.gradient)).toBeLessThan(1e-6);
});

test('a vocabulary computed in several parts gives log-probabilities that sum to one', async () => {
  const architecture = { ...TINY_ARCHITECTURE, vocabSize: 1100 };
  const model = tinyModel({ numThreads: 2 }, architecture);
  const prompt = [5, 900, 31];
  const row = packTrie([Array.from({ length: 1100 }, (_, id) => ({ tokenIds: [...prompt, id], numPrompt: 3 }))]);
  const { logprobs, entropies } = await model.forward(row);
  const sum = logprobs.reduce((total, logprob) => total + Math.exp(logprob), 0);
  const entropy = logprobs.reduce((total, logprob) => total - Math.exp(logprob) * logprob, 0);
  console.log(`Σ p = ${sum}; entropy ${entropies[0]} against ${entropy} from the log-probabilities`);
  expect(Math.abs(sum - 1)).toBeLessThan(1e-4);
  expect(Math.abs(entropies[0]! - entropy)).toBeLessThan(1e-3);
});

test('only targeted layers have adapters, and their gradients equal those of the full set', async () => {
  const row = packTrie(branchingGroups());
  const weights = lossWeights(row.targets.length);
  const full = tinyModel();
  for (const tensor of full.lora.tensors) if (tensor.linear !== 'o') tensor.value.fill(0);
  await passes(full, [row], weights);
  const only = tinyModel({ lora: { ...LORA, targets: ['o'] } });
  expect(only.lora.tensors.map((tensor) => tensor.name)).toEqual([
    'layers.0.o.a',
    'layers.0.o.b',
    'layers.1.o.a',
    'layers.1.o.b',
  ]);
  for (const tensor of only.lora.tensors)
    tensor.value.set(full.lora.tensors.find((other) => other.name === tensor.name)!.value);
  await passes(only, [row], weights);
  for (const tensor of only.lora.tensors) {
    const same = full.lora.tensors.find((other) => other.name === tensor.name)!;
    expect(maxDifference(Array.from(tensor.gradient), Array.from(same.gradient))).toBeLessThan(1e-5);
  }
});

test('a fresh adapter computes the base model, and withoutAdapter ignores any adapter', async () => {
  const row = packTrie(branchingGroups());
  const model = tinyModel();
  const base = await model.forward(row, { withoutAdapter: true });
  expect(maxDifference(Array.from((await model.forward(row)).logprobs), Array.from(base.logprobs))).toBeGreaterThan(
    0.01,
  );
  for (const tensor of model.lora.tensors) if (tensor.half === 'b') tensor.value.fill(0);
  expect(maxDifference(Array.from((await model.forward(row)).logprobs), Array.from(base.logprobs))).toBeLessThan(1e-6);
});

test('a row with nothing to train gives empty results and no gradient', async () => {
  const row = { ...packTrie(branchingGroups()), sources: new Int32Array(0), targets: new Int32Array(0) };
  const model = tinyModel();
  const { logprobs, gradient } = await passes(model, [row], new Float32Array(0));
  expect(logprobs).toEqual([]);
  expect(gradient.every((value) => value === 0)).toBe(true);
});

test.each([-1, TINY_ARCHITECTURE.vocabSize])('token id %d is refused', async (tokenId) => {
  const row = packTrie([[{ tokenIds: [1, 2, 3], numPrompt: 1 }]]);
  row.tokenIds[1] = tokenId;
  await expect(tinyModel().forward(row)).rejects.toMatchObject({
    code: 'trainer.token_out_of_range',
    message: `token ids must be in [0, 48), the model's vocabulary; got ${tokenId}`,
  });
});

test.each([1, 2])(
  '%d threads: the gate is released after every turn, also when the job is cancelled between two runs',
  async (numThreads) => {
    const row = packTrie(branchingGroups());
    const controller = new AbortController();
    let held = 0;
    let turns = 0;
    const gate = {
      acquire: async () => {
        expect(++held).toBe(1);
        turns++;
      },
      release: () => void held--,
      isWanted: true,
    };
    const model = tinyModel({ numThreads });
    await model.forward(row, { gate, keepForBackward: true });
    expect(turns).toBeGreaterThan(0);
    expect(held).toBe(0);
    controller.abort(new Error('stop'));
    await expect(
      model.backward(lossWeights(row.targets.length), { gate, signal: controller.signal }),
    ).rejects.toMatchObject({
      code: 'trainer.cancelled',
    });
    expect(held).toBe(0);
  },
);

test.each([1, 2, 3])('%d threads: the cores change hands in the middle of a pass', async (numThreads) => {
  const tokenIds = Int32Array.from(tokens(4001));
  const positions = Int32Array.from(tokenIds.keys()).subarray(0, 4000);
  const row: PackedRow = {
    tokenIds: tokenIds.subarray(0, 4000),
    positions,
    parents: positions.map((position) => position - 1),
    sources: positions,
    targets: tokenIds.subarray(1),
  };
  const weights = lossWeights(row.targets.length);
  const model = tinyModel({ numThreads });
  const undisturbed = await passes(model, [row], weights);
  const turns: number[] = [];
  const usedBetween: number[] = [];
  let heldSince: number | null = null;
  const gate = {
    acquire: async () => {
      const before = process.cpuUsage();
      await new Promise((resolve) => setTimeout(resolve, 50));
      const { user, system } = process.cpuUsage(before);
      usedBetween.push((user + system) / 1000);
      expect(heldSince).toBe(null);
      heldSince = performance.now();
    },
    release: () => {
      turns.push(performance.now() - heldSince!);
      heldSince = null;
    },
    isWanted: true,
  };
  for (const tensor of model.lora.tensors) tensor.gradient.fill(0);
  const { logprobs } = await model.forward(row, { gate, keepForBackward: true });
  await model.backward(weights.slice(), { gate });
  // While another user has the cores no lane computes; garbage collection may remain.
  const used = usedBetween.toSorted((a, b) => a - b)[Math.floor(usedBetween.length / 2)]!;
  const list = turns.map((ms) => ms.toFixed(0)).join(', ');
  console.log(`${numThreads} threads: turns of ${list} ms; ${used.toFixed(1)} ms of processor time in 50 ms between`);
  expect(turns.length).toBeGreaterThan(3);
  expect(used).toBeLessThan(20);
  expect(heldSince).toBe(null);
  expect(Array.from(logprobs)).toEqual(undisturbed.logprobs);
  expect(model.lora.tensors.flatMap((tensor) => Array.from(tensor.gradient))).toEqual(undisturbed.gradient);
});

test('a row that is not in depth-first order is a bug of the packer', async () => {
  const row = packTrie(branchingGroups());
  const parents = Int32Array.from(row.parents);
  parents[parents.length - 1] = 0;
  await expect(tinyModel().forward({ ...row, parents })).rejects.toThrow('the row is not in depth-first order');
});

/** Every option of an adapter's shape with every part that reads one. Each pair is a test. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DecoderAdapter, DecoderGraphs } from '@trainyard/decoder';
import { GgufFile } from '@trainyard/native';
import {
  ALL_LINEAR_NAMES,
  FUSED_LINEAR_NAMES,
  LINEAR_NAMES,
  type LoraConfig,
  readArchitecture,
} from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { readCheckpoint, writeCheckpoint } from '../checkpoint/checkpoint.ts';
import { resolveTrainingConfig } from '../config/training-config.ts';
import { decoderAdapter } from '../deterministic/decoder-adapter.ts';
import { DeterministicPolicy } from '../deterministic/deterministic-policy.ts';
import { RowDecoder } from '../deterministic/row-decoder.ts';
import { exportCheckpoint, type ExportFormat } from '../export/export-checkpoint.ts';
import { logprobDifference, parityRow } from '../export/parity.ts';
import { importAdapter } from '../import/import-adapter.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { requireCapabilities } from '../learner/require-capabilities.ts';
import { adamWStep, freshOptimizerState, gradientNorm } from '../optimizer/adamw.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';
import { initialLoraParameters } from './lora-parameters.ts';

type Family = keyof typeof TINY_ARCHITECTURES;

const scratch = mkdtempSync(join(tmpdir(), 'lora-options-'));
afterAll(async () => {
  for (const { policy } of await Promise.all(made.values())) policy.close();
  rmSync(scratch, { recursive: true });
});

const PLAIN: LoraConfig = { rank: 3, alpha: 4, targets: LINEAR_NAMES, initSeed: 1 };
const OPTIONS: Readonly<Record<string, Partial<LoraConfig>>> = {
  'no option': {},
  'two layers': { targets: ['k', 'down'] },
  'rank-stabilised': { isRankStabilised: true },
  'ranks by name': { rankPattern: { q_proj: 5, down_proj: 1 } },
  'ranks by path': { rankPattern: { 'layers.0.mlp.gate_proj': 1, 'layers.1.self_attn.v_proj': 6 } },
  'alphas by name and path': { alphaPattern: { 'layers.0.self_attn.k_proj': 9, v_proj: 1, up_proj: -2 } },
  'an alpha of 0': { alphaPattern: { q_proj: 0 } },
  'all of it': {
    targets: ['q', 'k', 'o', 'up', 'down'],
    isRankStabilised: true,
    rankPattern: { 'layers.1.self_attn.q_proj': 7, k_proj: 2, up_proj: 9 },
    alphaPattern: { 'layers.0.mlp.up_proj': 1, k_proj: 6 },
  },
  'fused layers': { targets: FUSED_LINEAR_NAMES },
  'some fused layers with ranks and alphas': {
    targets: ['qkv', 'gateUp', 'down'],
    isRankStabilised: true,
    rankPattern: { 'layers.1.self_attn.qkv_proj': 5, gate_up_proj: 4 },
    alphaPattern: { 'layers.0.mlp.gate_up_proj': 2, qkv_proj: 3 },
  },
};
/** Family of the option's model. */
const familyOf = (option: string): Family => (option.includes('fused') ? 'phi4' : 'llama');
/** Options that weights do not show: ignoring one gives other results. */
const SCALING = ['rank-stabilised', 'alphas by name and path', 'an alpha of 0'];

interface Trained {
  readonly policy: OrtPolicyModel;
  readonly lora: LoraConfig;
  readonly folder: string;
  readonly digest: string;
  readonly modelPath: string;
}

const made = new Map<string, Promise<Trained>>();

/** A policy with random weights of the option's shape, and its checkpoint after a step of the optimizer. */
function trained(option: string, family = familyOf(option)): Promise<Trained> {
  const key = `${option} ${family}`;
  if (!made.has(key)) made.set(key, train(option, family));
  return made.get(key)!;
}

async function train(option: string, family: Family): Promise<Trained> {
  const modelPath = join(scratch, `${family}.gguf`);
  writeTinyGguf(modelPath, TINY_ARCHITECTURES[family]);
  const lora = { ...PLAIN, ...OPTIONS[option] };
  const policy = await OrtPolicyModel.load({ modelPath, lora, numThreads: 1 });
  randomizeAdapter(policy.lora, randomSource(7));
  await policy.forward(ROW, { keepForBackward: true });
  await policy.backward(WEIGHTS.slice());
  const optimizer = freshOptimizerState(policy.lora.tensors);
  const config = resolveTrainingConfig({ learningRate: 1e-2 });
  adamWStep(policy.lora.tensors, optimizer, gradientNorm(policy.lora.tensors), config);
  const folder = mkdtempSync(join(scratch, 'checkpoint-'));
  const { architecture } = policy;
  const digest = writeCheckpoint(folder, { lora: policy.lora, architecture, optimizer, metrics: {} });
  return { policy, lora, folder, digest, modelPath };
}

const random = randomSource(5);
const ROW = parityRow(Int32Array.from({ length: 48 }, () => Math.floor(((1 + random()) / 2) * 256)));
const WEIGHTS = Float32Array.from(ROW.targets, random);

async function checkGradients(option: string, family: Family): Promise<void> {
  const { policy } = await trained(option, family);
  for (const { gradient } of policy.lora.tensors) gradient.fill(0);
  await policy.forward(ROW, { keepForBackward: true });
  await policy.backward(WEIGHTS.slice());
  const { tensors } = policy.lora;
  const originals = tensors.map(({ value }) => value.slice());
  const loss = async (): Promise<number> =>
    (await policy.forward(ROW)).logprobs.reduce((sum, logprob, i) => sum + logprob * WEIGHTS[i]!, 0);
  for (const half of ['a', 'b'] as const) {
    const direction = randomSource(17);
    const steps = tensors.map((tensor) => tensor.value.map(() => (tensor.half === half ? direction() : 0)));
    const slope = tensors.reduce((sum, { gradient }, t) => gradient.reduce((s, g, i) => s + g * steps[t]![i]!, sum), 0);
    const shifted = async (epsilon: number): Promise<number> => {
      tensors.forEach(({ value }, t) =>
        value.forEach((_, i) => (value[i] = originals[t]![i]! + epsilon * steps[t]![i]!)),
      );
      return await loss();
    };
    // Five points: truncation ε⁴, which hides float32 rounding.
    const epsilon = 4e-3;
    const near = (await shifted(epsilon)) - (await shifted(-epsilon));
    const far = (await shifted(2 * epsilon)) - (await shifted(-2 * epsilon));
    await shifted(0);
    const numeric = (8 * near - far) / (12 * epsilon);
    console.log(`${family}, ${option}, ${half}: slope ${slope.toFixed(5)}, finite differences ${numeric.toFixed(5)}`);
    expect(Math.abs(slope - numeric)).toBeLessThan(4e-3 * Math.max(1, Math.abs(slope)));
  }
}

/** Weights that stay in the file give the same bits, forward and backward. */
async function checkStreamed(option: string): Promise<void> {
  const { policy, lora, modelPath } = await trained(option);
  const streamed = await OrtPolicyModel.load({ modelPath, lora, numThreads: 1, weights: 'streamed' });
  streamed.lora.tensors.forEach(({ value }, i) => value.set(policy.lora.tensors[i]!.value));
  const results: Float32Array[][] = [];
  for (const one of [policy, streamed]) {
    for (const { gradient } of one.lora.tensors) gradient.fill(0);
    const { logprobs } = await one.forward(ROW, { keepForBackward: true });
    const values = [logprobs.slice()];
    await one.backward(WEIGHTS.slice());
    results.push([...values, ...one.lora.tensors.map(({ gradient }) => gradient.slice())]);
  }
  streamed.close();
  expect(results[1]).toEqual(results[0]);
}

/** The embedded sampler's adapter equals the trainer's to the bit, and its log-probabilities equal the trainer's. */
async function checkSampler(option: string): Promise<void> {
  const { policy, folder, modelPath } = await trained(option);
  const read = DecoderAdapter.load(join(folder, 'adapter.gguf'), policy.architecture);
  const own = decoderAdapter(policy.lora, policy.architecture);
  expect(read.layers).toEqual(own.layers);
  expect(Buffer.from(read.factors.buffer).equals(Buffer.from(own.factors.buffer))).toBe(true);
  using file = GgufFile.open(modelPath);
  const rows = new RowDecoder(new DecoderGraphs(file, readArchitecture(file), 1), 1);
  const { logprobs } = await policy.forward(ROW);
  const ofTrainer = [...logprobs];
  const ofSampler = await new DeterministicPolicy(policy, rows).forward(ROW);
  rows.close();
  const { max } = logprobDifference(ofTrainer, ofSampler.logprobs);
  console.log(`${option}: sampler and trainer differ by at most ${max}`);
  expect(max).toBeLessThan(1e-4);
  if (!SCALING.includes(option)) return;
  const plain = await OrtPolicyModel.load({ modelPath, lora: PLAIN, numThreads: 1 });
  plain.lora.tensors.forEach(({ value }, i) => value.set(policy.lora.tensors[i]!.value));
  const { logprobs: ofPlain } = await plain.forward(ROW);
  expect(logprobDifference(ofPlain, ofTrainer).max).toBeGreaterThan(0.01);
  plain.close();
}

async function checkExport(option: string, format: ExportFormat): Promise<void> {
  const { lora, folder, modelPath } = await trained(option);
  const outputDirectory = mkdtempSync(join(scratch, 'export-'));
  const request = { modelPath, baseModelId: 'base', lora, checkpointDirectory: folder, type: 'f32' } as const;
  const { parity } = await exportCheckpoint({ ...request, format, outputDirectory }, { numThreads: 1 });
  console.log(`${option}, ${format}: mean ${parity.meanDifference}, effect ${parity.adapterEffect}`);
  expect(parity.adapterEffect).toBeGreaterThan(0.05);
  expect(parity.meanDifference).toBeLessThan(parity.computedBy === 'llama.cpp' ? 5e-3 : 1e-5);
}

/** An import has the same shape and weights, and one of its own files is the same again. */
async function checkImport(option: string): Promise<void> {
  const { lora, folder, digest, modelPath } = await trained(option);
  const outputDirectory = mkdtempSync(join(scratch, 'import-'));
  const config = readFileSync(join(folder, 'adapter_config.json'), 'utf8');
  const weightsPath = join(folder, 'adapter_model.safetensors');
  const imported = importAdapter({ modelPath, config, weightsPath, outputDirectory });
  expect(imported).toEqual({ lora: { ...lora, initSeed: 0 }, digest });
  for (const file of ['adapter.gguf', 'adapter_config.json'])
    expect(readFileSync(join(outputDirectory, file))).toEqual(readFileSync(join(folder, file)));
}

/** Training continues from a checkpoint of the shape, and refuses one of another shape. */
async function checkRestart(option: string): Promise<void> {
  const { policy, lora, folder } = await trained(option);
  const again = initialLoraParameters(policy.architecture, lora);
  const optimizer = readCheckpoint(folder, again);
  expect(optimizer.numSteps).toBe(1);
  expect(again.tensors.map(({ value }) => value)).toEqual(policy.lora.tensors.map(({ value }) => value));
  const other = initialLoraParameters(policy.architecture, {
    ...lora,
    isRankStabilised: lora.isRankStabilised !== true,
  });
  expect(() => readCheckpoint(folder, other)).toThrow(
    /its adapter has use_rslora (false|true), the model's has (false|true)/,
  );
}

/** A learner with one rank and alpha refuses all but plain shapes, with the member's name. */
async function checkUniformLearner(option: string): Promise<void> {
  const lora = { ...PLAIN, ...OPTIONS[option] };
  const capabilities = {
    losses: 'any',
    targets: ALL_LINEAR_NAMES,
    targetSets: 'any',
    maxRank: 256,
    alpha: null,
    hasOwnShapes: false,
    entropies: 'none',
    reference: 'none',
    replay: false,
    maxKeptRows: 1,
    initialScale: 1,
  } as const;
  const needs = { loss: 'cispo', lora, usesEntropies: false, reference: 'none' } as const;
  const members = [
    ...(lora.isRankStabilised === true ? ['use_rslora'] : []),
    ...(lora.rankPattern === undefined ? [] : ['rank_pattern']),
    ...(lora.alphaPattern === undefined ? [] : ['alpha_pattern']),
  ];
  const check = (): void => requireCapabilities(needs, { capabilities });
  if (members.length === 0) expect(check).not.toThrow();
  else expect(check).toThrow(`${members.map((name) => `\`lora.${name}\``).join(', ')} must be absent on this learner`);
}

const PARTS: Readonly<Record<string, (option: string) => Promise<void>>> = {
  'gradients of the trainer': async (option) => await checkGradients(option, familyOf(option)),
  'gradients of the trainer, with four norms': async (option) =>
    await checkGradients(option, familyOf(option) === 'llama' ? 'gemma3' : 'phi3'),
  'weights that stay in the file': checkStreamed,
  'the embedded sampler': checkSampler,
  'export to PEFT': async (option) => await checkExport(option, 'peft'),
  'llama.cpp with an adapter file': async (option) => await checkExport(option, 'gguf-adapter'),
  'export to a merged GGUF': async (option) => await checkExport(option, 'merged-gguf'),
  'export to merged safetensors': async (option) => await checkExport(option, 'merged-safetensors'),
  'import from PEFT': checkImport,
  'restart from a checkpoint': checkRestart,
  'a learner of uniform adapters': checkUniformLearner,
};

describe.each(Object.keys(PARTS))('%s', (part) => {
  test.each(Object.keys(OPTIONS))('%s', async (option) => {
    expect.hasAssertions();
    await PARTS[part]!(option);
  });
});

test('a checkpoint from before these options keeps its meaning, and its bytes', async () => {
  const { folder, policy } = await trained('no option');
  expect(JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8'))).toEqual({
    peft_type: 'LORA',
    task_type: 'CAUSAL_LM',
    r: 3,
    lora_alpha: 4,
    lora_dropout: 0,
    target_modules: LINEAR_NAMES.map((name) => `${name}_proj`),
    bias: 'none',
    base_model_name_or_path: null,
    inference_mode: true,
  });
  const weights = readFileSync(join(folder, 'adapter_model.safetensors'));
  const header = JSON.parse(weights.toString('utf8', 8, 8 + Number(weights.readBigUInt64LE()))) as object;
  expect(header).toMatchObject({ __metadata__: { format: 'pt', lora_alpha: '4' } });
  const without = initialLoraParameters(policy.architecture, {
    ...PLAIN,
    isRankStabilised: false,
    rankPattern: {},
    alphaPattern: {},
  });
  expect(readCheckpoint(folder, without).numSteps).toBe(1);
});

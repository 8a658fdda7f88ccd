import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { linearNames, type LoraConfig, orderValueHeads } from '@trainyard/transformer';
import {
  randomSource,
  TINY_ARCHITECTURES,
  type TinyName,
  TORCH_NAMES,
  writeTinyGguf,
} from '@trainyard/transformer/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readAdapter, writeCheckpoint } from '../checkpoint/checkpoint.ts';
import { readSafetensors } from '../checkpoint/safetensors.ts';
import { resolveTrainingConfig } from '../config/training-config.ts';
import { exportCheckpoint } from '../export/export-checkpoint.ts';
import { parityRow } from '../export/parity.ts';
import { peftTensorName } from '../model/adapter-tensors.ts';
import { adamWStep, freshOptimizerState, gradientNorm } from '../optimizer/adamw.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';
import { OrtPolicyModel } from './ort-policy-model.ts';

/** Twenty steps of each family with the trainer, and with PEFT and torch's AdamW, from one adapter on all linear layers. */

const ROOT = resolve(import.meta.dirname, '../../../..');
const scratch = mkdtempSync(join(tmpdir(), 'trainyard-curves-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const NUM_STEPS = 20;
const CONFIG = resolveTrainingConfig({ learningRate: 5e-3, weightDecay: 0.01 });
const NAMES = TORCH_NAMES;

/** Longer than the windows of the tiny models; three sequences in turns, so that the loss falls. */
const random = randomSource(3);
const SEQUENCES = Array.from({ length: 3 }, () =>
  Int32Array.from({ length: 48 }, () => Math.floor(((1 + random()) / 2) * TINY_ARCHITECTURES.llama.vocabSize)),
);
const BATCHES = Array.from({ length: NUM_STEPS }, (_, step) => SEQUENCES[step % SEQUENCES.length]!);

interface Start {
  readonly modelPath: string;
  readonly lora: LoraConfig;
  readonly checkpoint: string;
  readonly digest: string;
}

const starts = new Map<TinyName, Start>();
let curves: readonly (readonly number[])[];

async function writeStart(name: TinyName): Promise<object> {
  const modelPath = join(scratch, `${name}.gguf`);
  writeTinyGguf(modelPath, TINY_ARCHITECTURES[name]);
  const lora = { rank: 4, alpha: 6, targets: linearNames(TINY_ARCHITECTURES[name]), initSeed: 1 };
  const policy = await OrtPolicyModel.load({ modelPath, lora, numThreads: 1 });
  randomizeAdapter(policy.lora, randomSource(2));
  const checkpoint = mkdtempSync(join(scratch, 'checkpoint-'));
  const optimizer = freshOptimizerState(policy.lora.tensors);
  const { architecture } = policy;
  const digest = writeCheckpoint(checkpoint, { lora: policy.lora, architecture, optimizer, metrics: {} });
  policy.close();
  starts.set(name, { modelPath, lora, checkpoint, digest });
  const exportAs = async (format: 'merged-safetensors' | 'peft', checkpointDirectory: string | null) => {
    const outputDirectory = mkdtempSync(join(scratch, `${format}-`));
    const request = { modelPath, baseModelId: 'base', lora, checkpointDirectory, format, outputDirectory };
    await exportCheckpoint({ ...request, type: 'f32' }, { numThreads: 1 });
    return outputDirectory;
  };
  const { learningRate: lr, adamBeta1, adamBeta2, adamEpsilon: eps, weightDecay, maxGradNorm } = CONFIG;
  return {
    base: await exportAs('merged-safetensors', null),
    adapter: await exportAs('peft', checkpoint),
    output: join(scratch, `${name}.safetensors`),
    batches: BATCHES.map((ids) => [...ids]),
    optimizer: { lr, betas: [adamBeta1, adamBeta2], eps, weight_decay: weightDecay },
    max_grad_norm: maxGradNorm,
  };
}

beforeAll(async () => {
  const jobs: object[] = [];
  for (const name of NAMES) jobs.push(await writeStart(name));
  const jobsFile = join(scratch, 'jobs.json');
  writeFileSync(jobsFile, JSON.stringify(jobs));
  const { stdout } = await promisify(execFile)(
    process.env['TRAINYARD_TEST_TORCH_PYTHON']!,
    [join(ROOT, 'lab/pytorch/lora_curves.py'), jobsFile],
    { env: { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' }, maxBuffer: 64e6 },
  );
  curves = JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!) as number[][];
}, 600_000);

test.each(NAMES)('%s: the curve of twenty steps equals that of torch', async (name) => {
  const { modelPath, lora, checkpoint, digest } = starts.get(name)!;
  const policy = await OrtPolicyModel.load({ modelPath, lora, numThreads: 1 });
  readAdapter(checkpoint, policy.lora, digest);
  const { tensors } = policy.lora;
  const inPeft = () => tensors.map(({ value, valueHeads }) => orderValueHeads(value.slice(), valueHeads, 'groups'));
  const before = inPeft();
  const optimizer = freshOptimizerState(tensors);
  const losses: number[] = [];
  for (const ids of BATCHES) {
    for (const { gradient } of tensors) gradient.fill(0);
    const { logprobs } = await policy.forward(parityRow(ids), { keepForBackward: true });
    losses.push(-logprobs.reduce((sum, logprob) => sum + logprob, 0) / logprobs.length);
    await policy.backward(new Float32Array(logprobs.length).fill(-1 / logprobs.length));
    adamWStep(tensors, optimizer, gradientNorm(tensors), CONFIG);
  }
  policy.close();
  const theirs = curves[NAMES.indexOf(name)]!;
  expect(theirs).toHaveLength(NUM_STEPS);
  const worst = Math.max(...losses.map((loss, step) => Math.abs(loss - theirs[step]!) / theirs[step]!));
  const trained = readSafetensors(join(scratch, `${name}.safetensors`)).tensors;
  expect(trained.size).toBe(tensors.length);
  let [difference, change] = [0, 0];
  const after = inPeft();
  tensors.forEach((tensor, t) => {
    const expected = trained.get(peftTensorName(tensor))!.data;
    after[t]!.forEach((value, i) => {
      difference += (value - expected[i]!) ** 2;
      change += (expected[i]! - before[t]![i]!) ** 2;
    });
  });
  const ofChange = Math.sqrt(difference / change);
  console.log(
    `${name}: loss ${losses[0]!.toFixed(4)} → ${losses.at(-1)!.toFixed(4)}, differs by ${worst.toExponential(1)} at most; ` +
      `the adapter by ${ofChange.toExponential(1)} of its change`,
  );
  expect(losses.at(-1)!).toBeLessThan(0.9 * losses[0]!);
  // The norm of small outputs of gated delta nets magnifies rounding, and so does each step: the first loss differs by 2e-8.
  const slack = name === 'qwen35' ? 5 : 1;
  expect(worst).toBeLessThan(slack * 1e-5);
  expect(ofChange).toBeLessThan(slack * 1e-4);
});

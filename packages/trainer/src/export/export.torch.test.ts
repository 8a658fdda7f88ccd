import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { GgufFile, LlamaModel } from '@trainyard/native';
import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { afterAll, expect, test } from 'vitest';
import {
  DEFAULT_LORA_CONFIG,
  type LinearName,
  linearNames,
  type LoraConfig,
  orderValueHeads,
  readWeights,
} from '@trainyard/transformer';
import {
  randomSource,
  TINY_ARCHITECTURES,
  type TinyName,
  TORCH_NAMES,
  writeTinyGguf,
} from '@trainyard/transformer/testing';
import { testModel } from '../../../../tests/support/model.ts';
import { readAdapter, writeCheckpoint } from '../checkpoint/checkpoint.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';
import { freshOptimizerState } from '../optimizer/adamw.ts';
import { exportCheckpoint, type ExportFormat } from './export-checkpoint.ts';
import { PARITY_TEXT } from './parity-text.ts';
import { logprobDifference, parityRow } from './parity.ts';
import { transformersFamily } from '../model-folder/transformers-families.ts';
import { peftTensorName } from '../model/adapter-tensors.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';

/** PyTorch loads the files: PEFT with the adapter on the dequantised base, transformers with the merged model. */

const ROOT = resolve(import.meta.dirname, '../../../..');
const scratch = mkdtempSync(join(tmpdir(), 'trainyard-torch-'));
afterAll(() => rmSync(scratch, { recursive: true }));

/** All kinds of pieces known to splitters. */
const TEXT = `${PARITY_TEXT}   12 345  67\t\n\n  don't WE'LL  🚂🚃 ''' \u00a0x  `;

interface Report {
  class: string;
  base: number[];
  peft: number[];
  merged: number[];
  tokens: number[];
  text: string;
  chat: number[];
  gradients?: Record<string, number[]>;
}

const UNTIED: ReadonlySet<string> = new Set(['llama', 'qwen2']);
const tiny = (name: TinyName, isTied: boolean) => () => {
  const path = join(scratch, `${name}.gguf`);
  writeTinyGguf(path, TINY_ARCHITECTURES[name], { isTied });
  return path;
};
/** ‖a - b‖ / ‖b‖ */
function relativeDifference(a: readonly number[], b: readonly number[]): number {
  return Math.hypot(...b.map((value, i) => a[i]! - value)) / Math.hypot(...b);
}

const SOME: readonly LinearName[] = [
  'q',
  'k',
  'qkv',
  'convIn',
  'deltaQkv',
  'deltaZ',
  'deltaB',
  'deltaA',
  'o',
  'out',
  'convOut',
  'deltaOut',
  'gateUp',
  'down',
  'w2',
];
const someOf = (name: TinyName): LoraConfig => {
  const targets = linearNames(TINY_ARCHITECTURES[name]).filter((linear) => SOME.includes(linear));
  return { rank: 3, alpha: 5, targets, initSeed: 0 };
};

test.each([
  ...TORCH_NAMES.map((name) => [name, tiny(name, !UNTIED.has(name)), someOf(name), 1] as const),
  ['SmolLM2', () => testModel().f16, DEFAULT_LORA_CONFIG, 0.2] as const,
])(
  '%s: PEFT and transformers compute the same as the trainer',
  async (name, makeModel, lora, scale) => {
    const modelPath = makeModel();
    using file = GgufFile.open(modelPath);
    const architecture = trainableArchitecture(file);
    const policy = new OrtPolicyModel(architecture, readWeights(file, architecture), { lora, numThreads: 1 });
    randomizeAdapter(policy.lora, randomSource(2));
    for (const { value } of policy.lora.tensors) value.forEach((_, i) => (value[i]! *= scale));
    const checkpointDirectory = mkdtempSync(join(scratch, 'checkpoint-'));
    const optimizer = freshOptimizerState(policy.lora.tensors);
    const digest = writeCheckpoint(checkpointDirectory, { lora: policy.lora, architecture, optimizer, metrics: {} });

    const exportAs = async (format: ExportFormat, source: string | null) => {
      const outputDirectory = mkdtempSync(join(scratch, `${format}-`));
      const request = { modelPath, baseModelId: 'base', lora, checkpointDirectory: source, format, outputDirectory };
      await exportCheckpoint({ ...request, type: 'f32' }, { numThreads: 1 });
      return outputDirectory;
    };
    const base = await exportAs('merged-safetensors', null);
    const peft = await exportAs('peft', checkpointDirectory);
    const merged = await exportAs('merged-safetensors', checkpointDirectory);

    const random = randomSource(9);
    const ids = Int32Array.from({ length: 200 }, () => Math.floor(((random() + 1) / 2) * architecture.vocabSize));
    const row = parityRow(ids);
    const withoutAdapter = await policy.forward(row, { withoutAdapter: true });
    const ours = { base: withoutAdapter, trained: await policy.forward(row, { keepForBackward: true }) };
    await policy.backward(Float32Array.from(row.targets, (_, i) => Math.cos(i)));
    const gradients = policy.lora.tensors.map(
      (tensor) => [peftTensorName(tensor), [...orderValueHeads(tensor.gradient, tensor.valueHeads, 'groups')]] as const,
    );
    readAdapter(peft, policy.lora, digest);
    policy.close();
    const tokenFile = join(scratch, 'tokens.json');
    writeFileSync(tokenFile, JSON.stringify([...ids]));
    const textFile = join(scratch, 'text.txt');
    writeFileSync(textFile, TEXT);
    const script = join(ROOT, 'lab/pytorch/exported_logprobs.py');
    const { stdout } = await promisify(execFile)(
      process.env['TRAINYARD_TEST_TORCH_PYTHON']!,
      [script, base, peft, merged, tokenFile, textFile],
      {
        env: { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' },
        maxBuffer: 64e6,
      },
    );
    const report = JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!) as Report;
    expect(report.class).toBe(transformersFamily(architecture)!.className);
    using vocabulary = LlamaModel.load(modelPath, { vocabOnly: true });
    const tokenizer = Tokenizer.fromModel(vocabulary);
    expect(report.tokens).toEqual([...tokenizer.encode(TEXT)]);
    expect(report.text).toBe(TEXT);
    const template = ChatTemplate.fromModel(tokenizer, vocabulary);
    const prompt = template.render([{ role: 'user', content: 'Hello' }], { addGenerationPrompt: false });
    expect(report.chat).toEqual([...prompt.tokenIds]);
    const effect = logprobDifference(ours.base.logprobs, ours.trained.logprobs).mean;
    const differences = {
      base: logprobDifference(ours.base.logprobs, report.base),
      peft: logprobDifference(ours.trained.logprobs, report.peft),
      merged: logprobDifference(ours.trained.logprobs, report.merged),
    };
    console.log(`${name}: the adapter moves log-probabilities by ${effect.toFixed(3)} on average`, differences);
    if (report.gradients !== undefined) {
      const worst = Math.max(
        ...gradients.map(([at, gradient]) => relativeDifference(gradient, report.gradients![at]!)),
      );
      console.log(
        `${name}: gradients of ${gradients.length} matrices differ by ${worst.toExponential(1)} of their norm`,
      );
      expect(worst).toBeLessThan(2e-5);
    }
    expect(effect).toBeGreaterThan(0.1);
    // Both sides compute in float32, with sums in different orders.
    for (const { max } of Object.values(differences)) expect(max).toBeLessThan(2e-4);
  },
  300_000,
);

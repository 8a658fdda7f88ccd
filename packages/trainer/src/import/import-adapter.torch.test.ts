import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { GgufFile } from '@trainyard/native';
import { readWeights } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURES, type TinyName, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { readAdapter } from '../checkpoint/checkpoint.ts';
import { readSafetensors, type SafetensorsFile } from '../checkpoint/safetensors.ts';
import { exportCheckpoint } from '../export/export-checkpoint.ts';
import { logprobDifference, parityRow } from '../export/parity.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { peftTensorName } from '../model/adapter-tensors.ts';
import type { LoraParameters } from '../model/policy-model.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';
import { importAdapter } from './import-adapter.ts';

/** Log-probabilities of the trainer, of PEFT, and of PEFT with the exported files. */

const ROOT = resolve(import.meta.dirname, '../../../..');
const scratch = mkdtempSync(join(tmpdir(), 'trainyard-peft-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const ALL = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
const CONFIGS: Record<string, object> = {
  plain: { r: 3, lora_alpha: 5, target_modules: ['q_proj', 'v_proj'] },
  rslora: { r: 3, lora_alpha: 5, target_modules: ALL, use_rslora: true },
  'every linear layer': { r: 4, lora_alpha: 5, target_modules: 'all-linear', use_rslora: true },
  'a rank above the hidden size': { r: 40, lora_alpha: 8, target_modules: ['o_proj', 'gate_proj'], use_rslora: true },
  'paths from the start': {
    r: 3,
    lora_alpha: 4,
    target_modules: 'all-linear',
    rank_pattern: { '^model.layers.1.mlp.up_proj': 6, 'layers.0.self_attn.q_proj': 1, q_proj: 2 },
    alpha_pattern: { '^model.layers.0.mlp.up_proj': 9, o_proj: 1 },
  },
  expression: { r: 2, lora_alpha: 4, target_modules: '.*layers\\.(0|1)\\.(self_attn|mlp)\\.(q|k|down)_proj' },
  'expression for one layer': { r: 2, lora_alpha: 4, target_modules: 'model\\.layers\\.1\\..*(q|down)_proj' },
  paths: { r: 2, lora_alpha: 4, target_modules: ['self_attn.q_proj', 'model.layers.0.mlp.up_proj'] },
  excluded: {
    r: 2,
    lora_alpha: 4,
    target_modules: ['q_proj', 'up_proj'],
    exclude_modules: ['lm_head', 'layers.1.mlp.up_proj'],
  },
  'excluded by an expression': { r: 2, lora_alpha: 4, target_modules: 'all-linear', exclude_modules: '.*\\.mlp\\..*' },
  layers: { r: 2, lora_alpha: 4, target_modules: ALL, layers_to_transform: [0, 1], layers_pattern: 'layers' },
  'one layer': { r: 2, lora_alpha: 4, target_modules: ALL, layers_to_transform: [1] },
  ranks: {
    r: 2,
    lora_alpha: 4,
    target_modules: ALL,
    rank_pattern: { q_proj: 5, '.*layers.0.mlp.down_proj': 1, '^v_proj': 4 },
  },
  alphas: { r: 2, lora_alpha: 4, target_modules: ALL, alpha_pattern: { q_proj: 9, 'layers.1.mlp.*': 1.5 } },
  'ranks and alphas, rank-stabilised': {
    r: 4,
    lora_alpha: 6,
    target_modules: ALL,
    use_rslora: true,
    rank_pattern: { 'o_proj|k_proj': 2, 'layers.0.mlp.up_proj': 7 },
    alpha_pattern: { k_proj: 3 },
    exclude_modules: ['layers.1.self_attn.v_proj'],
  },
};

/** A fused layer has one A and one B. */
const FUSED_CONFIGS: Record<string, object> = {
  'every fused layer': { r: 4, lora_alpha: 5, target_modules: 'all-linear' },
  'one fused layer': { r: 3, lora_alpha: 5, target_modules: ['qkv_proj'], use_rslora: true },
  'ranks and alphas of fused layers': {
    r: 2,
    lora_alpha: 4,
    target_modules: ['qkv_proj', 'gate_up_proj', 'down_proj'],
    rank_pattern: { qkv_proj: 5, 'layers.0.mlp.gate_up_proj': 1 },
    alpha_pattern: { gate_up_proj: 9 },
  },
};

/** Each with the adapters that are exported again. */
const BASES = [
  { family: 'llama', configs: CONFIGS, exportedAgain: ['rslora', 'paths', 'ranks and alphas, rank-stabilised'] },
  { family: 'phi4', configs: FUSED_CONFIGS, exportedAgain: Object.keys(FUSED_CONFIGS) },
] satisfies { family: TinyName; configs: object; exportedAgain: string[] }[];

/** Modules without tensors in PEFT are zero here, and have no gradient. */
function checkGradients(name: string, lora: LoraParameters, theirs: SafetensorsFile): void {
  let [numFound, largest, difference] = [0, 0, 0];
  for (const tensor of lora.tensors) {
    const expected = theirs.tensors.get(peftTensorName(tensor))?.data;
    if (expected !== undefined) numFound += 1;
    for (const [i, value] of tensor.gradient.entries()) {
      largest = Math.max(largest, Math.abs(expected?.[i] ?? 0));
      difference = Math.max(difference, Math.abs(value - (expected?.[i] ?? 0)));
    }
  }
  console.log(`${name}: gradients of ${numFound} tensors up to ${largest.toFixed(3)} differ by at most ${difference}`);
  expect(numFound, name).toBe(theirs.tensors.size);
  expect(difference, name).toBeLessThan(2e-5 * largest);
}

test.each(BASES)(
  '$family: adapters of PEFT compute the same here as in PEFT, with gradients, and so do their exports',
  async ({ family, configs, exportedAgain }) => {
    const modelPath = join(scratch, `${family}.gguf`);
    writeTinyGguf(modelPath, TINY_ARCHITECTURES[family]);
    using file = GgufFile.open(modelPath);
    const architecture = trainableArchitecture(file);
    const random = randomSource(9);
    const ids = Int32Array.from({ length: 120 }, () => Math.floor(((random() + 1) / 2) * architecture.vocabSize));
    const base = mkdtempSync(join(scratch, 'base-'));
    const exported = (
      format: 'merged-safetensors' | 'peft',
      lora: object,
      source: string | null,
      outputDirectory: string,
    ) =>
      exportCheckpoint(
        {
          modelPath,
          baseModelId: 'base',
          lora: lora as never,
          checkpointDirectory: source,
          format,
          outputDirectory,
          type: 'f32',
        },
        { numThreads: 1 },
      );
    const noLora = { rank: 1, alpha: 1, targets: ['o'], initSeed: 0 };
    await exported('merged-safetensors', noLora, null, base);
    const [configFile, tokenFile] = [join(scratch, 'configs.json'), join(scratch, 'tokens.json')];
    writeFileSync(configFile, JSON.stringify(Object.values(configs)));
    writeFileSync(tokenFile, JSON.stringify([...ids]));
    const python = process.env['TRAINYARD_TEST_TORCH_PYTHON']!;
    const env = { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' };
    const report = async (script: string, ...args: string[]) => {
      const { stdout } = await promisify(execFile)(python, [join(ROOT, 'lab/pytorch', script), ...args], {
        env,
        maxBuffer: 64e6,
      });
      return JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!) as number[][];
    };
    const saved = mkdtempSync(join(scratch, 'saved-'));
    const [baseline, ...theirs] = await report('peft_adapters.py', base, configFile, tokenFile, saved);
    const exports: { folder: string; logprobs: number[] }[] = [];
    for (const [index, name] of Object.keys(configs).entries()) {
      const outputDirectory = mkdtempSync(join(scratch, 'imported-'));
      const config = readFileSync(join(saved, String(index), 'adapter_config.json'), 'utf8');
      const weightsPath = join(saved, String(index), 'adapter_model.safetensors');
      const { lora, digest } = importAdapter({ modelPath, config, weightsPath, outputDirectory });
      // As in a warm start.
      const policy = new OrtPolicyModel(architecture, readWeights(file, architecture), { lora, numThreads: 1 });
      readAdapter(outputDirectory, policy.lora, digest);
      const row = parityRow(ids);
      const { logprobs } = await policy.forward(row, { keepForBackward: true });
      const ofValues = logprobs.slice();
      await policy.backward(Float32Array.from(row.targets, (_, i) => Math.cos(i)));
      checkGradients(name, policy.lora, readSafetensors(join(saved, String(index), 'gradients.safetensors')));
      policy.close();
      const difference = logprobDifference(ofValues, theirs[index]!);
      const effect = logprobDifference(ofValues, baseline!).mean;
      console.log(`${name}: moves log-probabilities by ${effect.toFixed(3)} on average`, difference);
      expect(effect, name).toBeGreaterThan(0.01);
      expect(difference.max, name).toBeLessThan(2e-4);
      if (!exportedAgain.includes(name)) continue;
      const folder = mkdtempSync(join(scratch, 'export-'));
      await exported('peft', lora, outputDirectory, folder);
      exports.push({ folder, logprobs: [...ofValues] });
    }
    const folders = exports.map(({ folder }) => folder);
    const again = await report('peft_logprobs.py', base, tokenFile, ...folders);
    expect(again).toHaveLength(exportedAgain.length);
    for (const [index, { logprobs }] of exports.entries())
      expect(logprobDifference(logprobs, again[index]!).max).toBeLessThan(2e-4);
  },
  900_000,
);

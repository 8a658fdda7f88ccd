import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile } from '@trainyard/native';
import { afterAll, describe, expect, test } from 'vitest';
import { DEFAULT_LORA_CONFIG, linearNames, type LoraConfig } from '@trainyard/transformer';
import {
  LLAMA_CPP_ARCHITECTURES,
  randomSource,
  TINY_ARCHITECTURES,
  TINY_CHAT_TEMPLATE,
  writeTinyGguf,
  tinyContextLength,
} from '@trainyard/transformer/testing';
import { testModel } from '../../../../tests/support/model.ts';
import { readAdapter, writeCheckpoint } from '../checkpoint/checkpoint.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';
import { freshOptimizerState } from '../optimizer/adamw.ts';
import { exportCheckpoint, type ExportFormat, type ExportRequest } from './export-checkpoint.ts';
import { transformersFamily } from '../model-folder/transformers-families.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-export-'));
afterAll(() => rmSync(scratch, { recursive: true }));
const FORMATS: readonly ExportFormat[] = ['peft', 'gguf-adapter', 'merged-gguf', 'merged-safetensors'];
const OPTIONS = { numThreads: 1 };

/** Random weights of ordinary size, `scale` times 0.3. */
function randomCheckpoint(modelPath: string, lora: LoraConfig, scale: number): string {
  const file = GgufFile.open(modelPath);
  const architecture = trainableArchitecture(file);
  file.close();
  const parameters = initialLoraParameters(architecture, lora);
  randomizeAdapter(parameters, randomSource(2));
  for (const { value } of parameters.tensors) value.forEach((_, i) => (value[i]! *= scale));
  const directory = mkdtempSync(join(scratch, 'checkpoint-'));
  const optimizer = freshOptimizerState(parameters.tensors);
  writeCheckpoint(directory, { lora: parameters, architecture, optimizer, metrics: {} });
  return directory;
}

function request(modelPath: string, fields: Partial<ExportRequest>): ExportRequest {
  return {
    modelPath,
    baseModelId: 'tiny/base',
    lora: DEFAULT_LORA_CONFIG,
    checkpointDirectory: null,
    format: 'peft',
    type: 'f16',
    outputDirectory: mkdtempSync(join(scratch, 'export-')),
    ...fields,
  };
}

const TIED: ReadonlySet<string> = new Set(['qwen3', 'gemma3', 'smollm3']);

describe.each(Object.entries(LLAMA_CPP_ARCHITECTURES))('%s', (name, architecture) => {
  const modelPath = join(scratch, `${name}.gguf`);
  writeTinyGguf(modelPath, architecture, { isTied: TIED.has(name) });
  const some: LoraConfig['targets'] = [
    'q',
    'k',
    'qkv',
    'convIn',
    'deltaQkv',
    'deltaA',
    'o',
    'out',
    'convOut',
    'deltaOut',
    'down',
    'w2',
  ];
  const targets = some.filter((linear) => linearNames(architecture).includes(linear));
  const lora: LoraConfig = { rank: 3, alpha: 5, targets, initSeed: 0 };
  const checkpointDirectory = randomCheckpoint(modelPath, lora, 1);

  test.each(
    FORMATS.flatMap((format) =>
      format.startsWith('merged')
        ? [
            [format, 'f32'],
            [format, 'f16'],
          ]
        : [[format, 'f16']],
    ),
  )('%s in %s computes the same as the trainer', async (format, type) => {
    const job = request(modelPath, { lora, checkpointDirectory, format, type } as Partial<ExportRequest>);
    const { files, parity } = await exportCheckpoint(job, OPTIONS);
    console.log(
      `${name} ${format} ${type} by ${parity.computedBy}: mean |Δlogprob| ${parity.meanDifference.toExponential(1)}, ` +
        `max ${parity.maxDifference.toExponential(1)}, effect of the adapter ${parity.adapterEffect.toFixed(2)}`,
    );
    expect(parity).toMatchObject({ numTokens: 256 });
    expect(parity.adapterEffect).toBeGreaterThan(0.5);
    // llama.cpp keeps keys and values in half precision, which random weights amplify: 0.005 on average, 0.05 at
    // most. Of experts a few tokens get others, as scores of random routers are close.
    expect(parity.meanDifference).toBeLessThan(architecture.experts === null ? 0.01 : 0.03);
    if (architecture.experts === null) expect(parity.maxDifference).toBeLessThan(0.1);
    if (format === 'peft') expect(parity.maxDifference).toBe(0);
    if (format === 'merged-safetensors' && type === 'f32') expect(parity.maxDifference).toBeLessThan(1e-4);
    expect(files.map((file) => file.name)).toEqual(readdirSync(job.outputDirectory).toSorted());
    for (const file of files) {
      const bytes = readFileSync(join(job.outputDirectory, file.name));
      expect(file).toEqual({
        name: file.name,
        sizeBytes: bytes.length,
        sha256: createHash('sha256').update(bytes).digest('hex'),
      });
    }
    expect(JSON.parse(readFileSync(join(job.outputDirectory, 'parity.json'), 'utf8'))).toEqual(parity);
  });

  test('a merged GGUF keeps all metadata and the vocabulary', async () => {
    const job = request(modelPath, { lora, checkpointDirectory, format: 'merged-gguf' });
    await exportCheckpoint(job, OPTIONS);
    using source = GgufFile.open(modelPath);
    using merged = GgufFile.open(join(job.outputDirectory, 'model.gguf'));
    expect(Object.fromEntries(merged.metadata)).toEqual({
      ...Object.fromEntries(source.metadata),
      'general.file_type': 1,
    });
    expect([...merged.tensors.keys()]).toEqual([...source.tensors.keys()]);
    for (const { name: tensor, dims, type } of merged.tensors.values())
      expect(type).toBe(
        dims.length === 1 || /\.bias$|\.(ffn_gate_inp|shortconv\.conv|ssm_conv1d)\.weight$/.test(tensor)
          ? 'f32'
          : 'f16',
      );
    // Tensors without an adapter are only rounded.
    const untouched = architecture.experts === null ? 'blk.1.ffn_up.weight' : 'blk.1.ffn_up_exps.weight';
    expect(merged.readF32(untouched)).toEqual(source.readF32(untouched).map(Math.f16round));
    const inputs = ['attn_q', 'attn_qkv', 'shortconv.in_proj'].map((part) => `blk.1.${part}.weight`);
    const adapted = inputs.find((tensor) => source.tensors.has(tensor))!;
    expect(merged.readF32(adapted)).not.toEqual(source.readF32(adapted).map(Math.f16round));
  });

  test('the configuration for transformers agrees with the model file', async () => {
    const job = request(modelPath, { lora, checkpointDirectory, format: 'merged-safetensors' });
    await exportCheckpoint(job, OPTIONS);
    const read = (file: string) => JSON.parse(readFileSync(join(job.outputDirectory, file), 'utf8')) as object;
    expect(read('config.json')).toMatchObject({
      model_type: transformersFamily(architecture)!.modelType,
      vocab_size: 259,
      hidden_size: 32,
      num_key_value_heads: 2,
      rms_norm_eps: architecture.rmsEpsilon,
      rope_theta: architecture.ropeBase,
      max_position_embeddings: tinyContextLength(architecture),
      tie_word_embeddings: TIED.has(name),
      torch_dtype: 'float16',
      eos_token_id: 258,
    });
    expect(read('tokenizer_config.json')).toMatchObject({
      eos_token: '<|im_end|>',
      chat_template: TINY_CHAT_TEMPLATE,
      model_max_length: tinyContextLength(architecture),
    });
    expect(read('generation_config.json')).toMatchObject({ eos_token_id: expect.arrayContaining([258]) });
  });
});

describe('an export', () => {
  const modelPath = join(scratch, 'base.gguf');
  writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);

  test.each(['merged-gguf', 'merged-safetensors'] as const)(
    'of the base model as %s is the base model',
    async (format) => {
      const { parity } = await exportCheckpoint(request(modelPath, { format, type: 'f32' }), OPTIONS);
      expect(parity.adapterEffect).toBe(0);
      expect(parity.meanDifference).toBeLessThan(0.01);
    },
  );

  test.each(['peft', 'gguf-adapter'] as const)(
    'of an untrained model as %s equals the start of the first job',
    async (format) => {
      const lora: LoraConfig = { ...DEFAULT_LORA_CONFIG, rank: 3, initSeed: 5 };
      const job = request(modelPath, { format, lora });
      const { files, parity } = await exportCheckpoint(job, OPTIONS);
      const names = format === 'peft' ? ['adapter_config.json', 'adapter_model.safetensors'] : ['adapter.gguf'];
      expect(files.map(({ name }) => name)).toEqual([...names, 'parity.json'].toSorted());
      expect(parity.adapterEffect).toBe(0);
      expect(parity.meanDifference).toBeLessThan(0.01);
      if (format === 'gguf-adapter') return;
      const file = GgufFile.open(modelPath);
      const architecture = trainableArchitecture(file);
      file.close();
      const exported = initialLoraParameters(architecture, { ...lora, initSeed: 6 });
      const sha256 = files.find(({ name }) => name === 'adapter_model.safetensors')!.sha256;
      readAdapter(job.outputDirectory, exported, sha256);
      const first = initialLoraParameters(architecture, lora);
      expect(exported.tensors.map(({ value }) => value)).toEqual(first.tensors.map(({ value }) => value));
      expect(exported.tensors.some(({ value }) => value.some((one) => one !== 0))).toBe(true);
    },
  );

  test('with files that compute something else fails', async () => {
    // alpha of llama.cpp's adapter file is that of another configuration.
    const lora: LoraConfig = { ...DEFAULT_LORA_CONFIG, rank: 2, alpha: 4 };
    const checkpointDirectory = randomCheckpoint(modelPath, lora, 1);
    const other = randomCheckpoint(modelPath, { ...lora, alpha: 12 }, 1);
    rmSync(join(checkpointDirectory, 'adapter.gguf'));
    copyFileSync(join(other, 'adapter.gguf'), join(checkpointDirectory, 'adapter.gguf'));
    const job = request(modelPath, { format: 'gguf-adapter', lora, checkpointDirectory });
    await expect(exportCheckpoint(job, OPTIONS)).rejects.toMatchObject({
      code: 'trainer.export_differs',
      message: expect.stringMatching(/by [\d.]+ on average, more than 0.1/),
    });
  });

  test('of weights beyond the range of halves names them, and works in f32', async () => {
    const lora: LoraConfig = { ...DEFAULT_LORA_CONFIG, rank: 2, alpha: 4, targets: ['up'] };
    const checkpointDirectory = randomCheckpoint(modelPath, lora, 1000);
    const fields = { format: 'merged-gguf', lora, checkpointDirectory } as const;
    await expect(exportCheckpoint(request(modelPath, fields), OPTIONS)).rejects.toMatchObject({
      code: 'trainer.non_finite',
      message: expect.stringMatching(/^tensor blk\.0\.ffn_up\.weight has the value .* export with dtype f32$/),
    });
  });

  // Within a pass of the graphs; in a later llama.cpp pass or file; anywhere on a slow machine.
  test.each([1, 5, 20])(
    'takes the cores for a turn at a time, and ends when it is cancelled in turn %i',
    async (last) => {
      const checkpointDirectory = randomCheckpoint(modelPath, DEFAULT_LORA_CONFIG, 1);
      const controller = new AbortController();
      const enough = new Error('enough');
      let numTurns = 0;
      let isHeld = false;
      const gate = {
        acquire: async (signal?: AbortSignal) => {
          signal?.throwIfAborted();
          expect(isHeld).toBe(false);
          isHeld = true;
          numTurns += 1;
          if (numTurns === last) controller.abort(enough);
        },
        release: () => {
          isHeld = false;
        },
        isWanted: true,
      };
      const job = request(modelPath, { format: 'merged-gguf', checkpointDirectory });
      await expect(exportCheckpoint(job, { ...OPTIONS, gate, signal: controller.signal })).rejects.toMatchObject({
        code: 'trainer.cancelled',
        cause: enough,
      });
      expect(numTurns).toBe(last);
      expect(isHeld).toBe(false);
    },
  );
});

describe('SmolLM2', () => {
  const { base, f16 } = testModel();
  const checkpointDirectory = randomCheckpoint(f16, DEFAULT_LORA_CONFIG, 0.2);

  test.each([
    ['peft', 'f16', f16],
    ['gguf-adapter', 'f16', f16],
    ['gguf-adapter', 'f16', base],
    ['merged-gguf', 'f16', f16],
    ['merged-gguf', 'f32', f16],
    ['merged-safetensors', 'f16', f16],
  ] as const)('%s in %s computes the same as the trainer', async (format, type, modelPath) => {
    const outputDirectory = join(scratch, 'smollm');
    mkdirSync(outputDirectory);
    const startedAt = performance.now();
    const { files, parity } = await exportCheckpoint(
      request(modelPath, { format, type, checkpointDirectory, outputDirectory }),
      OPTIONS,
    );
    const seconds = (performance.now() - startedAt) / 1000;
    const megabytes = files.reduce((sum, file) => sum + statSync(join(outputDirectory, file.name)).size, 0) / 1e6;
    console.log(
      `${format} ${type}: ${megabytes.toFixed(0)} MB in ${seconds.toFixed(1)} s; mean |Δlogprob| ${parity.meanDifference.toFixed(5)}, ` +
        `max ${parity.maxDifference.toFixed(5)}, effect of the adapter ${parity.adapterEffect.toFixed(3)}`,
    );
    expect(parity.meanDifference).toBeLessThan(0.01);
    expect(parity.adapterEffect).toBeGreaterThan(0.1);
    expect(files.map((file) => file.name)).not.toContain('base.gguf');
    rmSync(outputDirectory, { recursive: true });
  });
});

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile } from '@trainyard/native';
import { readArchitecture } from '@trainyard/transformer';
import { TINY_ARCHITECTURES } from '@trainyard/transformer/testing';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { type NamedTensor, readSafetensors, writeSafetensors } from '../checkpoint/safetensors.ts';
import { writeTinyFolder } from '../testing/tiny-folder.ts';
import { folderSource } from './folder-source.ts';
import { modelCopy } from './model-copy.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-folder-'));
afterAll(() => rmSync(scratch, { recursive: true }));

let folder: string;
let original: string;
let directory: string;
beforeEach(() => {
  const place = mkdtempSync(join(scratch, 'model-'));
  folder = join(place, 'tiny');
  original = join(place, 'original.gguf');
  directory = join(place, 'copies');
});

const convert = (onCopy?: () => void) => modelCopy(folderSource(folder), { directory, ...(onCopy && { onCopy }) });
const pathOf = (name: string) => join(folder, name);
const readJson = <Content extends object>(name: string) => JSON.parse(readFileSync(pathOf(name), 'utf8')) as Content;
const writeJson = (name: string, value: unknown) => writeFileSync(pathOf(name), JSON.stringify(value));

/** Rewrites a folder in which each expert has its own tensors. */
function stackExperts(): void {
  const path = pathOf('model.safetensors');
  const all = new Map(readSafetensors(path).tensors);
  const { count } = TINY_ARCHITECTURES.qwen3moe.experts!;
  for (let layer = 0; layer < TINY_ARCHITECTURES.qwen3moe.numLayers; layer++) {
    const prefix = `model.layers.${layer}.mlp.experts`;
    const take = (matrices: readonly string[]): NamedTensor['data'][] =>
      Array.from({ length: count }, (_, expert) =>
        matrices.map((matrix) => {
          const name = `${prefix}.${expert}.${matrix}_proj.weight`;
          const { data } = all.get(name)!;
          all.delete(name);
          return data;
        }),
      ).flat();
    const { hiddenSize, experts } = TINY_ARCHITECTURES.qwen3moe;
    const stacked = (name: string, dims: number[], matrices: readonly string[]) => {
      const data = Float32Array.from(take(matrices).flatMap((part) => [...part]));
      all.set(`${prefix}.${name}`, { name: `${prefix}.${name}`, dims, data });
    };
    stacked('gate_up_proj', [count, 2 * experts!.feedForwardSize, hiddenSize], ['gate', 'up']);
    stacked('down_proj', [count, hiddenSize, experts!.feedForwardSize], ['down']);
  }
  rmSync(path);
  writeSafetensors(path, [...all.values()], {});
}

test('a folder with all experts of a layer in one tensor gives the file of one with a tensor per expert', async () => {
  await writeTinyFolder(folder, original, TINY_ARCHITECTURES.qwen3moe);
  const expected = readFileSync(await convert());
  stackExperts();
  let numCopies = 0;
  expect(readFileSync(await convert(() => numCopies++)).equals(expected)).toBe(true);
  expect(numCopies).toBe(1);
});

/** Values of codes without a sign. */
const FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

/** Replaces experts by random ones in MXFP4. @returns values of each matrix by layer, [E, out, in], from the definition */
function quantiseExperts(damage: (scales: Uint8Array) => void = () => {}): Map<string, Float32Array> {
  const path = pathOf('model.safetensors');
  const { hiddenSize: H, numLayers, experts } = TINY_ARCHITECTURES['gpt-oss'];
  const { count, feedForwardSize: F } = experts!;
  const all: { name: string; dtype: string; dims: readonly number[]; bytes: Uint8Array }[] = readSafetensors(path)
    .tensors.values()
    .filter(({ name }) => !/experts\.(gate_up|down)_proj$/.test(name))
    .map(({ name, dims, data }) => ({ name, dtype: 'F32', dims, bytes: new Uint8Array(data.buffer) }))
    .toArray();
  const values = new Map<string, Float32Array>();
  let state = 1;
  const random = (most: number) => (
    (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0),
    (state >>> 8) % most
  );
  for (let layer = 0; layer < numLayers; layer++)
    for (const [name, rows, columns] of [
      ['gate_up_proj', 2 * F, H],
      ['down_proj', H, F],
    ] as const) {
      const numBlocks = (count * rows * columns) / 32;
      const scales = Uint8Array.from({ length: numBlocks }, () => 124 + random(6));
      const blocks = Uint8Array.from({ length: 16 * numBlocks }, () => random(256));
      const plain = Float32Array.from({ length: 32 * numBlocks }, (_, i) => {
        const pair = blocks[i >> 1]!;
        const code = i % 2 === 0 ? pair & 15 : pair >> 4;
        // ggml has no -0.
        return 0 + (code > 7 ? -1 : 1) * FP4[code & 7]! * 2 ** (scales[i >> 5]! - 127);
      });
      const ofRows = (keep: (row: number) => boolean) => plain.filter((_, i) => keep(Math.floor(i / columns) % rows));
      if (name === 'down_proj') values.set(`blk.${layer}.ffn_down_exps.weight`, plain);
      else {
        values.set(
          `blk.${layer}.ffn_gate_exps.weight`,
          ofRows((row) => row % 2 === 0),
        );
        values.set(
          `blk.${layer}.ffn_up_exps.weight`,
          ofRows((row) => row % 2 === 1),
        );
      }
      damage(scales);
      const prefix = `model.layers.${layer}.mlp.experts.${name}`;
      const dims = [count, rows, columns / 32];
      all.push(
        { name: `${prefix}_blocks`, dtype: 'U8', dims: [...dims, 16], bytes: blocks },
        { name: `${prefix}_scales`, dtype: 'U8', dims, bytes: scales },
      );
    }
  let end = 0;
  const header = all.map(({ name, dtype, dims, bytes }) => {
    const start = end;
    end += bytes.length;
    return [name, { dtype, shape: dims, data_offsets: [start, end] }] as const;
  });
  const json = Buffer.from(JSON.stringify(Object.fromEntries(header)));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  writeFileSync(path, Buffer.concat([length, json, ...all.map(({ bytes }) => bytes)]));
  const config = readJson<object>('config.json');
  writeJson('config.json', { ...config, quantization_config: { quant_method: 'mxfp4' } });
  return values;
}

test('experts in MXFP4 keep their values and their size', async () => {
  await writeTinyFolder(folder, original, TINY_ARCHITECTURES['gpt-oss']);
  const values = quantiseExperts();
  using file = GgufFile.open(await convert());
  expect(values.size).toBe(3 * TINY_ARCHITECTURES['gpt-oss'].numLayers);
  for (const [name, expected] of values) {
    const { type, sizeBytes } = file.tensors.get(name)!;
    expect([name, type, sizeBytes]).toEqual([name, 'mxfp4', (17 * expected.length) / 32]);
    expect(file.readF32(name)).toEqual(expected);
  }
});

test('experts in MXFP4 whose values are not finite are refused', async () => {
  await writeTinyFolder(folder, original, TINY_ARCHITECTURES['gpt-oss']);
  quantiseExperts((scales) => (scales[3] = 255));
  await expect(convert()).rejects.toThrow(
    'the tensor model.layers.0.mlp.experts.gate_up_proj_scales has a scale of NaN or infinite values',
  );
  writeJson('config.json', { ...readJson<object>('config.json'), quantization_config: { quant_method: 'gptq' } });
  await expect(convert()).rejects.toThrow('the weights are quantised ("gptq")');
});

test('an export of gpt-oss without biases of q, k and v has zeros for them', async () => {
  await writeTinyFolder(folder, original, { ...TINY_ARCHITECTURES['gpt-oss'], hasAttentionBias: false });
  using file = GgufFile.open(await convert());
  for (const linear of ['q', 'k', 'v'])
    expect(new Set(file.readF32(`blk.0.attn_${linear}.bias`))).toEqual(new Set([0]));
});

describe.each(['llama', 'qwen2', 'qwen3', 'qwen3moe', 'granitemoe', 'lfm2', 'gpt-oss'] as const)(
  'a folder of %s',
  (name) => {
    const architecture = TINY_ARCHITECTURES[name];

    test.each(['f32', 'f16'] as const)('in %s gives the tensors of the GGUF file that it came from', async (type) => {
      await writeTinyFolder(folder, original, architecture, { type, isTied: name === 'qwen3' });
      using file = GgufFile.open(await convert());
      using source = GgufFile.open(original);
      expect([...file.tensors.keys()].toSorted()).toEqual([...source.tensors.keys()].toSorted());
      for (const { name: tensor, dims } of source.tensors.values()) {
        const { type: stored } = file.tensors.get(tensor)!;
        const isSingle = dims.length === 1 || /\.bias$|\.(ffn_gate_inp|shortconv\.conv)\.weight$/.test(tensor);
        expect([tensor, stored]).toEqual([tensor, isSingle ? 'f32' : type]);
        const values = source.readF32(tensor);
        expect(file.readF32(tensor)).toEqual(type === 'f32' ? values : values.map(Math.f16round));
      }
    });

    test('has the metadata and the vocabulary of that file', async () => {
      await writeTinyFolder(folder, original, architecture);
      using file = GgufFile.open(await convert());
      using source = GgufFile.open(original);
      const optional =
        {
          llama: /^general\.license$/,
          granitemoe: /^general\.license$|\.attention\.(key|value)_length$/,
          'gpt-oss': /^general\.license$|\.(vocab_size|rope\.dimension_count|attention\.sliding_window_pattern)$/,
        }[name as string] ?? /^general\.license$|\.(vocab_size|rope\.dimension_count)$/;
      for (const [key, value] of source.metadata) {
        if (optional.test(key)) continue;
        const expected = { 'general.name': 'tiny' }[key] ?? value;
        expect([key, file.metadata.get(key)]).toEqual([key, expected]);
      }
    });
  },
);

describe('a folder of lfm2', () => {
  const writeLfm2 = (change: object) => {
    writeJson('config.json', { ...readJson<object>('config.json'), ...change });
  };
  beforeEach(() => writeTinyFolder(folder, original, TINY_ARCHITECTURES.lfm2, { isTied: true }));

  test('may have the names of settings from before transformers had the family', async () => {
    const { layer_types: _, norm_eps, rope_theta, ...config } = readJson<Record<string, unknown>>('config.json');
    const older = { block_ff_dim: 96, block_auto_adjust_ff_dim: true, full_attn_idxs: [2] };
    const { intermediate_size: __, tie_word_embeddings: ___, ...others } = config;
    writeJson('config.json', { ...others, ...older, norm_eps, theta: rope_theta, tie_embedding: true });
    using file = GgufFile.open(await convert());
    using source = GgufFile.open(original);
    expect(readArchitecture(file)).toEqual(readArchitecture(source));
  });

  test.each([
    [{ conv_bias: true }, 'convolutions with biases (`conv_bias`) are not supported'],
    [{ layer_types: ['conv', 'full_attention'] }, '`layer_types` in config.json must be `conv` or `full_attention`'],
    [{ layer_types: ['conv', 'conv', 'sliding_attention', 'conv'] }, 'sliding attention windows are not supported'],
    [
      { layer_types: null, full_attn_idxs: [4] },
      '`full_attn_idxs` in config.json must be a list of layers from 0 to 3',
    ],
    [{ conv_L_cache: 1 }, '`conv_L_cache` in config.json must be a whole number from 2'],
    [{ intermediate_size: 65 }, 'the tensor model.layers.0.feed_forward.w1.weight'],
    [{ model_type: 'lfm2_moe' }, 'folders of the family "lfm2_moe"'],
  ])('with %j is refused', async (change, message) => {
    writeLfm2(change);
    await expect(convert()).rejects.toThrow(message);
  });
});

describe('a folder of qwen35', () => {
  const architecture = TINY_ARCHITECTURES.qwen35;
  beforeEach(() => writeTinyFolder(folder, original, architecture));

  test.each(['f32', 'f16'] as const)('in %s gives the tensors of the GGUF file that it came from', async (type) => {
    rmSync(folder, { recursive: true });
    await writeTinyFolder(folder, original, architecture, { type });
    using file = GgufFile.open(await convert());
    using source = GgufFile.open(original);
    expect(readArchitecture(file)).toEqual(readArchitecture(source));
    expect([...file.tensors.keys()].toSorted()).toEqual([...source.tensors.keys()].toSorted());
    for (const { name: tensor, dims } of source.tensors.values()) {
      const isSingle = dims.length === 1 || tensor.endsWith('ssm_conv1d.weight');
      expect([tensor, file.tensors.get(tensor)!.type]).toEqual([tensor, isSingle ? 'f32' : type]);
      const [found, expected] = [file.readF32(tensor), source.readF32(tensor)];
      // The folder has norms less one, and logarithms.
      const tolerance = dims.length === 1 ? 1e-6 + (type === 'f16' ? 3e-3 : 0) : 0;
      const rounded = type === 'f32' ? expected : expected.map(Math.f16round);
      const worst = found.reduce((most, value, i) => Math.max(most, Math.abs(value - rounded[i]!)), 0);
      expect([tensor, worst <= tolerance]).toEqual([tensor, true]);
    }
  });

  test('has the metadata of that file', async () => {
    using file = GgufFile.open(await convert());
    using source = GgufFile.open(original);
    for (const [key, value] of source.metadata) {
      if (/^general\.license$|\.(vocab_size|rope\.dimension_sections)$/.test(key)) continue;
      expect([key, file.metadata.get(key)]).toEqual([key, { 'general.name': 'tiny' }[key] ?? value]);
    }
    expect(file.metadata.get('qwen35.rope.dimension_sections')).toEqual([11, 11, 10, 0]);
  });

  test('with images is read without them, and without parts that predict further tokens', async () => {
    const expected = await convert();
    const path = pathOf('model.safetensors');
    const { tensors } = readSafetensors(path);
    const named = Array.from(tensors, ([name, { dims, data }]) => ({
      name: name.replace(/^model\./, 'model.language_model.'),
      dims,
      data,
    }));
    const others = ['model.visual.patch_embed.proj.weight', 'mtp.fc.weight'].map((name) => ({
      name,
      dims: [2],
      data: new Float32Array(2),
    }));
    rmSync(path);
    writeSafetensors(path, [...named, ...others], { format: 'pt' });
    const text = { ...readJson<object>('config.json'), model_type: 'qwen3_5_text' };
    writeJson('config.json', {
      model_type: 'qwen3_5',
      architectures: ['Qwen3_5ForConditionalGeneration'],
      vision_config: {},
      text_config: text,
      tie_word_embeddings: false,
    });
    const [found, own] = [await convert(), expected].map((file) => GgufFile.open(file));
    using stack = new DisposableStack();
    [found, own].forEach((file) => stack.adopt(file!, (one) => one.close()));
    for (const tensor of own!.tensors.keys()) expect(found!.readF32(tensor)).toEqual(own!.readF32(tensor));
  });

  test.each([
    [{ attn_output_gate: false }, '`attn_output_gate` is false; only true is supported'],
    [{ linear_num_value_heads: 3 }, '`linear_num_value_heads` in config.json must be a multiple of'],
    [{ linear_value_head_dim: 16 }, '`linear_value_head_dim` is 16; only `linear_key_head_dim` (8) is supported'],
    [
      { layer_types: ['full_attention', 'linear_attention', 'full_attention', 'linear_attention'] },
      'has full attention in another order',
    ],
    [{ layer_types: ['linear_attention'] }, '`layer_types` in config.json must be a type for each of 4 layers'],
    [{ linear_conv_kernel_dim: 3 }, 'the tensor model.layers.0.linear_attn.conv1d.weight'],
    [{ model_type: 'qwen3_5_moe_text' }, 'folders of the family "qwen3_5_moe_text"'],
    [{ model_type: 'qwen3_next' }, 'folders of the family "qwen3_next"'],
  ])('with %j is refused', async (change, message) => {
    writeJson('config.json', { ...readJson<object>('config.json'), ...change });
    await expect(convert()).rejects.toThrow(message);
  });
});

describe('a folder with experts', () => {
  const writeMoe = () => writeTinyFolder(folder, original, TINY_ARCHITECTURES.qwen3moe);
  const weights = () => pathOf('model.safetensors');
  const changed = (change: (tensors: NamedTensor[]) => NamedTensor[]) => {
    const { tensors } = readSafetensors(weights());
    rmSync(weights());
    writeSafetensors(weights(), change([...tensors.values()]), { format: 'pt' });
  };

  test('keeps shares that do not sum to 1, the default of its class', async () => {
    await writeMoe();
    const { norm_topk_prob: _, ...config } = readJson<Record<string, unknown>>('config.json');
    writeJson('config.json', config);
    using file = GgufFile.open(await convert());
    expect(file.metadata.get('qwen3moe.expert_weights_norm')).toBe(false);
    expect(readArchitecture(file).experts).toEqual({
      ...TINY_ARCHITECTURES.qwen3moe.experts,
      normalisesShares: false,
    });
  });

  test.each([
    [
      'that lacks one',
      (tensors: NamedTensor[]) => tensors.filter(({ name }) => !name.includes('layers.1.mlp.experts.5.up_proj')),
      'the weights lack the tensor model.layers.1.mlp.experts.5.up_proj.weight of a qwen3moe model',
    ],
    [
      'that has one of another size',
      (tensors: NamedTensor[]) =>
        tensors.map((tensor) =>
          tensor.name.includes('layers.0.mlp.experts.2.down_proj')
            ? { ...tensor, dims: [32, 31], data: new Float32Array(32 * 31) }
            : tensor,
        ),
      'model.layers.0.mlp.experts.2.down_proj.weight in model.safetensors is [32, 31], config.json needs [32, 32]',
    ],
  ])('%s is refused, naming the tensor', async (_, change, message) => {
    await writeMoe();
    changed(change);
    await expect(convert()).rejects.toThrow(message);
    expect(existsSync(directory) ? readdirSync(directory) : []).toEqual([]);
  });

  test.each([
    [{ num_experts_per_tok: 9 }, '`num_experts_per_tok` in config.json must be a whole number from 1 to 8, got 9'],
    [{ mlp_only_layers: 1 }, '`mlp_only_layers` in config.json must be a list of layers, got 1'],
    [{ decoder_sparse_step: 2 }, 'the weights lack the tensor model.layers.0.mlp.gate_proj.weight'],
  ])('with %j is refused', async (change, message) => {
    await writeMoe();
    writeJson('config.json', { ...readJson<object>('config.json'), ...change });
    await expect(convert()).rejects.toThrow(message);
  });
});

test.each([
  // Its windows have the rope of the other layers.
  ['mistral', null],
  ['olmo3', 500_000],
] as const)('windows of %s have the rope base of newer configurations', async (name, ofWindows) => {
  await writeTinyFolder(folder, original, TINY_ARCHITECTURES[name]);
  const { rope_theta: _, ...config } = readJson<{ rope_theta?: number; rope_scaling?: object }>('config.json');
  writeJson('config.json', {
    ...config,
    rope_scaling: null,
    rope_parameters: { rope_type: 'default', rope_theta: 500_000 },
  });
  using file = GgufFile.open(await convert());
  const { ropeBase, window } = readArchitecture(file);
  expect([ropeBase, window?.ropeBase]).toEqual([500_000, ofWindows]);
});

describe('a folder of llama', () => {
  beforeEach(() => writeTinyFolder(folder, original, TINY_ARCHITECTURES.llama));

  test('in BF16 keeps its bits', async () => {
    const { tensors } = readSafetensors(pathOf('model.safetensors'));
    const header: Record<string, unknown> = {};
    const parts: Uint8Array[] = [];
    let end = 0;
    for (const { name, dims, data } of tensors.values()) {
      const halves = Uint16Array.from(
        new Uint32Array(data.buffer, data.byteOffset, data.length),
        (bits) => bits >>> 16,
      );
      header[name] = { dtype: 'BF16', shape: dims, data_offsets: [end, end + halves.byteLength] };
      end += halves.byteLength;
      parts.push(new Uint8Array(halves.buffer));
    }
    const json = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(json.length));
    writeFileSync(pathOf('model.safetensors'), Buffer.concat([length, json, ...parts]));
    using file = GgufFile.open(await convert());
    using source = GgufFile.open(original);
    expect(file.metadata.get('general.file_type')).toBe(32);
    for (const [tensor, { dims }] of source.tensors) {
      expect(file.tensors.get(tensor)!.type).toBe(dims.length === 1 ? 'f32' : 'bf16');
      const cut = source.readF32(tensor);
      new Uint32Array(cut.buffer).forEach((bits, i, all) => (all[i] = bits & 0xffff_0000));
      expect(file.readF32(tensor)).toEqual(cut);
    }
  });

  test('in several files gives the same GGUF file as in one', async () => {
    const single = readFileSync(await convert());
    const all = [...readSafetensors(pathOf('model.safetensors')).tensors.values()];
    const shards = {
      'model-00001-of-00002.safetensors': all.slice(7),
      'model-00002-of-00002.safetensors': all.slice(0, 7),
    };
    rmSync(pathOf('model.safetensors'));
    const weight_map = Object.fromEntries(
      Object.entries(shards).flatMap(([file, tensors]) => tensors.map(({ name }) => [name, file])),
    );
    for (const [file, tensors] of Object.entries(shards)) writeSafetensors(pathOf(file), tensors, {});
    writeJson('model.safetensors.index.json', { metadata: {}, weight_map });
    expect(readFileSync(await convert()).equals(single)).toBe(true);
  });

  test('is converted once, and again when its content changes', async () => {
    let conversions = 0;
    const count = () => void (conversions += 1);
    const copy = await convert(count);
    expect(await convert(count)).toBe(copy);
    utimesSync(pathOf('config.json'), 1, 1);
    expect(await convert(count)).toBe(copy);
    expect(conversions).toBe(1);
    writeJson('config.json', { ...readJson<object>('config.json'), max_position_embeddings: 1024 });
    expect(await convert(count)).toBe(copy);
    expect(conversions).toBe(2);
    using file = GgufFile.open(copy);
    expect(file.metadata.get('llama.context_length')).toBe(1024);
    expect(readdirSync(directory).length).toBe(2); // the copy and its stamp
  });

  test('leaves nothing of a conversion that was cut off or refused', async () => {
    const controller = new AbortController();
    const cut = modelCopy(folderSource(folder), {
      directory,
      signal: controller.signal,
      onCopy: () => controller.abort(),
    });
    await expect(cut).rejects.toThrow(/abort/);
    expect(readdirSync(directory)).toEqual([]);
    const copy = await convert();
    writeFileSync(`${copy}.partial`, 'of a killed process');
    rmSync(`${copy}.json`);
    await convert();
    expect(existsSync(`${copy}.partial`)).toBe(false);
  });

  test('has the frequency factors of Llama 3.1', async () => {
    const rope_scaling = {
      rope_type: 'llama3',
      factor: 8,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 64,
    };
    writeJson('config.json', { ...readJson<object>('config.json'), rope_scaling });
    using file = GgufFile.open(await convert());
    const factors = file.readF32('rope_freqs.weight');
    // Wavelengths 2π·10^j: below 16 they stay, above 64 they grow by the factor, between them both are mixed.
    expect(factors[0]).toBe(1);
    const smooth = (64 / (2 * Math.PI * 10) - 1) / 3;
    expect(factors[1]).toBeCloseTo(1 / ((1 - smooth) / 8 + smooth), 5);
    expect([...factors.subarray(2)]).toEqual([8, 8]);
  });

  test('has its chat templates, from the file of their own first', async () => {
    writeJson('tokenizer_config.json', {
      eos_token: { content: '<|im_end|>' },
      chat_template: [
        { name: 'default', template: 'one' },
        { name: 'tool_use', template: 'two' },
      ],
    });
    using listed = GgufFile.open(await convert());
    expect(listed.metadata.get('tokenizer.chat_template')).toBe('one');
    expect(listed.metadata.get('tokenizer.chat_template.tool_use')).toBe('two');
    expect(listed.metadata.get('tokenizer.ggml.eos_token_id')).toBe(258);
    writeFileSync(pathOf('chat_template.jinja'), 'three');
    using own = GgufFile.open(await convert());
    expect(own.metadata.get('tokenizer.chat_template')).toBe('three');
  });

  test('has the end tokens of generation_config.json that llama.cpp does not know by their text', async () => {
    const tokenizer = readFileSync(pathOf('tokenizer.json'), 'utf8');
    // Exports list all tokens that end a generation, which for Qwen are these and more.
    writeFileSync(pathOf('tokenizer.json'), tokenizer.replaceAll('<|endoftext|>', '<|repo_name|>'));
    writeJson('generation_config.json', { eos_token_id: [258, 256, 257] });
    using file = GgufFile.open(await convert());
    expect((file.metadata.get('tokenizer.ggml.tokens') as string[])[256]).toBe('<|repo_name|>');
    expect(file.metadata.get('tokenizer.ggml.eos_token_id')).toBe(258);
    expect(file.metadata.get('tokenizer.ggml.eot_token_id')).toBe(257);
    expect(file.metadata.has('tokenizer.ggml.eom_token_id')).toBe(false);
  });

  test('fills ids without a token, up to the size of the embedding', async () => {
    const tokenizer = readJson<{ added_tokens: { id: number }[]; model: { vocab: Record<string, number> } }>(
      'tokenizer.json',
    );
    tokenizer.added_tokens = tokenizer.added_tokens.filter(({ id }) => id !== 256);
    delete tokenizer.model.vocab['<|endoftext|>'];
    writeJson('tokenizer.json', tokenizer);
    using file = GgufFile.open(await convert());
    expect((file.metadata.get('tokenizer.ggml.tokens') as string[])[256]).toBe('[PAD256]');
    expect((file.metadata.get('tokenizer.ggml.token_type') as number[]).slice(255)).toEqual([1, 5, 3, 3]);
  });
});

import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TINY_ARCHITECTURES } from '@trainyard/transformer/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { readSafetensors, writeSafetensors } from '../checkpoint/safetensors.ts';
import { writeTinyFolder } from '../testing/tiny-folder.ts';
import { folderSource } from './folder-source.ts';
import { modelCopy } from './model-copy.ts';
import { ModelFolderError } from './model-folder-error.ts';
import { ModelFolder } from './model-folder.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-bad-folder-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const good = join(scratch, 'good');
beforeAll(() => writeTinyFolder(good, join(scratch, 'good.gguf'), TINY_ARCHITECTURES.llama));

let folder: string;
beforeEach(() => {
  folder = join(mkdtempSync(join(scratch, 'copy-')), 'tiny');
  cpSync(good, folder, { recursive: true });
});

const WEIGHTS = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';
const pathOf = (name: string) => join(folder, name);
const readJson = (name: string) => JSON.parse(readFileSync(pathOf(name), 'utf8')) as Record<string, object>;

function change(name: string, values: Readonly<Record<string, unknown>>): void {
  writeFileSync(pathOf(name), JSON.stringify({ ...readJson(name), ...values }));
}

function changeModel(values: Readonly<Record<string, unknown>>): void {
  change('tokenizer.json', { model: { ...readJson('tokenizer.json')['model'], ...values } });
}

function changeTensors(
  edit: (tensors: Map<string, { name: string; dims: readonly number[]; data: Float32Array }>) => void,
) {
  const tensors = new Map(readSafetensors(pathOf(WEIGHTS)).tensors);
  edit(tensors);
  rmSync(pathOf(WEIGHTS));
  writeSafetensors(pathOf(WEIGHTS), [...tensors.values()], {});
}

function index(weight_map: unknown): void {
  renameSync(pathOf(WEIGHTS), pathOf('all.safetensors'));
  writeFileSync(pathOf(INDEX), JSON.stringify({ weight_map }));
}

function header(values: Readonly<Record<string, unknown>>, data: Uint8Array = new Uint8Array(64)): void {
  const json = Buffer.from(JSON.stringify(values));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  writeFileSync(pathOf(WEIGHTS), Buffer.concat([length, json, data]));
}

const PHI = TINY_ARCHITECTURES.phi4;

/** Gives the folder the configuration of a Phi model, whose weights are checked later. */
function changePhi(values: Readonly<Record<string, unknown>>): void {
  change('config.json', {
    model_type: 'phi3',
    architectures: ['Phi3ForCausalLM'],
    num_attention_heads: PHI.numHeads,
    max_position_embeddings: 512,
    original_max_position_embeddings: 128,
    partial_rotary_factor: 0.75,
    rope_scaling: { type: 'longrope', short_factor: [1, 2, 3], long_factor: [1, 2, 3] },
    ...values,
  });
}

/** The same for Granite 4. */
function changeGranite4(values: Readonly<Record<string, unknown>>): void {
  change('config.json', {
    model_type: 'granitemoehybrid',
    architectures: ['GraniteMoeHybridForCausalLM'],
    layer_types: ['attention', 'attention'],
    num_local_experts: 0,
    shared_intermediate_size: 64,
    ...values,
  });
}

/** The same for gpt-oss. */
function changeGptOss(values: Readonly<Record<string, unknown>>): void {
  change('config.json', { model_type: 'gpt_oss', architectures: ['GptOssForCausalLM'], ...values });
}

const HEAD = 'lm_head.weight';
const QUERY = 'model.layers.1.self_attn.q_proj.weight';

test.each<[string, () => void, RegExp]>([
  ['no config.json', () => rmSync(pathOf('config.json')), /has no config\.json: pass a GGUF file, or a folder/],
  ['a config.json that is cut off', () => truncateSync(pathOf('config.json'), 20), /config\.json is not JSON/],
  ['a list as config.json', () => writeFileSync(pathOf('config.json'), '[]'), /config\.json is not a JSON object/],
  ['a config.json of another encoding', () => writeFileSync(pathOf('config.json'), Buffer.of(0x7b, 0xff)), /as UTF-8/],
  [
    'a folder as config.json',
    () => {
      rmSync(pathOf('config.json'));
      mkdirSync(pathOf('config.json'));
    },
    /is not a file/,
  ],
  [
    'a config.json of 100 MB',
    () => truncateSync(pathOf('config.json'), 100_000_000),
    /has 100000000 bytes; at most 67108864/,
  ],
  [
    'another family',
    () => change('config.json', { model_type: 'gemma2' }),
    /family "gemma2".*supported: llama, qwen2, [^.]*\. A GGUF file of the model works: --model ID=PATH\.gguf$/,
  ],
  [
    'Granite 4 with Mamba',
    () => changeGranite4({ layer_types: ['mamba', 'attention'] }),
    /layers with Mamba \(`layer_types`.*of granitemoehybrid, models with attention in all layers are/,
  ],
  [
    'Granite 4 with Mamba, as transformers 5 saves it',
    () => changeGranite4({ layer_types: ['linear_attention', 'full_attention'] }),
    /layers with Mamba/,
  ],
  [
    'Granite 4 with attention, as transformers 5 saves it, and the names of Granite 3',
    () => changeGranite4({ layer_types: ['full_attention', 'full_attention'] }),
    /lack the tensor model\.layers\.0\.shared_mlp\.input_linear\.weight/,
  ],
  ['Granite 4 without types of layers', () => changeGranite4({ layer_types: null }), /layers with Mamba/],
  [
    'Granite 4 with experts',
    () => changeGranite4({ num_local_experts: 8 }),
    /`num_local_experts` is 8; of granitemoehybrid, models without experts/,
  ],
  [
    'Granite 4 with the names of Granite 3',
    () => changeGranite4({}),
    /lack the tensor model\.layers\.0\.shared_mlp\.input_linear\.weight/,
  ],
  [
    'gpt-oss with another limit of the gate',
    () => changeGptOss({ swiglu_limit: 10 }),
    /`swiglu_limit` is 10; only 7 is supported/,
  ],
  [
    'gpt-oss with rounded yarn',
    () => changeGptOss({ rope_scaling: { rope_type: 'yarn', factor: 4 } }),
    /yarn with `truncate`: true is not supported for this family/,
  ],
  [
    'gpt-oss with windows in other layers',
    () => changeGptOss({ layer_types: ['sliding_attention', 'full_attention', 'full_attention'] }),
    /layers with a sliding window in another order/,
  ],
  [
    'gpt-oss without biases',
    () => changeGptOss({ head_dim: 8, num_local_experts: 2, num_experts_per_tok: 1, tie_word_embeddings: false }),
    /the weights lack the tensor model\.layers\.0\.self_attn\.q_proj\.bias/,
  ],
  ['a family like a property', () => change('config.json', { model_type: 'constructor' }), /family "constructor"/],
  [
    'a class for another task',
    () => change('config.json', { architectures: ['LlamaForSequenceClassification'] }),
    /class "LlamaForSequenceClassification"; of the family llama, LlamaForCausalLM/,
  ],
  [
    'quantised weights',
    () => change('config.json', { quantization_config: { quant_method: 'gptq' } }),
    /quantised \("gptq"\); use the repository with F32, F16 or BF16/,
  ],
  ['another activation', () => change('config.json', { hidden_act: 'gelu' }), /`hidden_act` is "gelu"; only silu/],
  ['sliding windows', () => change('config.json', { use_sliding_window: true }), /sliding attention windows/],
  [
    'layers that slide',
    () => change('config.json', { layer_types: ['full_attention', 'sliding_attention'] }),
    /sliding/,
  ],
  [
    'longrope',
    () => change('config.json', { rope_scaling: { rope_type: 'longrope', factor: 4 } }),
    /rope scaling "longrope".*supported: default, linear, llama3, yarn/,
  ],
  [
    'rope over a part of a head',
    () => change('config.json', { partial_rotary_factor: 0.5 }),
    /`partial_rotary_factor` is 0\.5/,
  ],
  [
    'Phi with the weights of another family',
    () => changePhi({}),
    /the weights lack the tensor model\.layers\.0\.self_attn\.qkv_proj\.weight of a phi3 model/,
  ],
  [
    'longrope with factors for other heads',
    () => changePhi({ rope_scaling: { type: 'longrope', short_factor: [1, 2], long_factor: [1, 2, 3] } }),
    /`short_factor` in config\.json must be 3 positive numbers, half of the rotated dimensions of a head, got \[1,2\]/,
  ],
  [
    'longrope with another attention factor',
    () =>
      changePhi({
        rope_scaling: { type: 'longrope', short_factor: [1, 1, 1], long_factor: [1, 1, 1], attention_factor: 2 },
      }),
    /longrope with an `attention_factor` of 2 is not supported; supported: 1\.1338/,
  ],
  [
    'another rope scaling of Phi',
    () => changePhi({ rope_scaling: { type: 'linear', factor: 2 } }),
    /rope scaling "linear" is not supported; supported: default, longrope/,
  ],
  [
    'an odd number of rotated dimensions',
    () => changePhi({ partial_rotary_factor: 0.625, rope_scaling: null }),
    /`partial_rotary_factor` of 0\.625 rotates 5 of 8 dimensions, not an even number/,
  ],
  [
    'convolutions in all layers',
    () => change('config.json', { model_type: 'lfm2', architectures: null, layer_types: ['conv', 'conv'] }),
    /models with convolutions in all layers are not supported/,
  ],
  [
    'a mixture of experts without experts',
    () => change('config.json', { model_type: 'qwen3_moe', architectures: null, mlp_only_layers: [0, 1] }),
    /mixtures of experts without a layer of experts are not supported/,
  ],
  [
    'no number of layers',
    () => change('config.json', { num_hidden_layers: null }),
    /`num_hidden_layers` in config\.json must be a whole number from 1 to 512, got nothing/,
  ],
  ['2^53 layers', () => change('config.json', { num_hidden_layers: 2 ** 53 }), /from 1 to 512, got 9007199254740992/],
  ['a negative size', () => change('config.json', { hidden_size: -32 }), /`hidden_size`.*got -32/],
  ['a vocabulary beyond the limit', () => change('config.json', { vocab_size: 2 ** 40 }), /`vocab_size`.*to 1048576/],
  ['a text as a size', () => change('config.json', { intermediate_size: '64' }), /`intermediate_size`.*got "64"/],
  [
    'heads that cannot share keys',
    () => change('config.json', { num_key_value_heads: 3 }),
    /`num_key_value_heads`.*a divisor/,
  ],
  ['an odd head', () => change('config.json', { head_dim: 7 }), /`head_dim`.*even, got 7/],
  [
    'another size than the weights',
    () => change('config.json', { intermediate_size: 65 }),
    /gate_proj\.weight in model\.safetensors is \[64, 32\], config\.json needs \[65, 32\]/,
  ],
  [
    'more layers than the weights',
    () => change('config.json', { num_hidden_layers: 3 }),
    /lack the tensor model\.layers\.2\.input_layernorm\.weight of a llama model/,
  ],
  [
    'fewer layers than the weights',
    () => change('config.json', { num_hidden_layers: 1 }),
    /the tensor "model\.layers\.1\..*no llama model has/,
  ],
  ['a missing tensor', () => changeTensors((tensors) => tensors.delete(HEAD)), /lack the tensor lm_head\.weight/],
  [
    'a NaN',
    () => changeTensors((tensors) => (tensors.get(QUERY)!.data[77] = NaN)),
    /the tensor model\.layers\.1\.self_attn\.q_proj\.weight has a NaN/,
  ],
  [
    'an infinite norm',
    () => changeTensors((tensors) => (tensors.get('model.norm.weight')!.data[3] = -Infinity)),
    /model\.norm\.weight has a NaN or infinite/,
  ],
  [
    'only pickles',
    () => renameSync(pathOf(WEIGHTS), pathOf('pytorch_model.bin')),
    /only pickled weights \(pytorch_model\.bin\).*never read: save the model as safetensors/,
  ],
  [
    'only a GGUF file',
    () => renameSync(pathOf(WEIGHTS), pathOf('x.gguf')),
    /pass its GGUF file, for example --model ID=x\.gguf/,
  ],
  ['no weights', () => rmSync(pathOf(WEIGHTS)), /neither model\.safetensors nor/],
  [
    'weights that are cut off',
    () => truncateSync(pathOf(WEIGHTS), statSync(pathOf(WEIGHTS)).size - 1),
    /^model\.safetensors: .*ends beyond the end/,
  ],
  [
    'a header of 2^63 bytes',
    () => writeFileSync(pathOf(WEIGHTS), Buffer.from('00000000000000800000', 'hex')),
    /header of 9223372036854775808 bytes does not fit/,
  ],
  [
    'a tensor of 2^60 values',
    () => header({ a: { dtype: 'F32', shape: [2 ** 30, 2 ** 30], data_offsets: [0, 64] } }),
    /"a" of \[1073741824, 1073741824\] has 64 bytes/,
  ],
  [
    'tensors that overlap',
    () =>
      header({
        a: { dtype: 'F32', shape: [16], data_offsets: [0, 64] },
        b: { dtype: 'F32', shape: [8], data_offsets: [32, 64] },
      }),
    /"b" starts at 32, expected 64/,
  ],
  [
    'a hole between tensors',
    () =>
      header({
        a: { dtype: 'F32', shape: [4], data_offsets: [0, 16] },
        b: { dtype: 'F32', shape: [8], data_offsets: [32, 64] },
      }),
    /"b" starts at 32, expected 16/,
  ],
  [
    'weights of 8 bits',
    () => header({ a: { dtype: 'F8_E4M3', shape: [64], data_offsets: [0, 64] } }),
    /dtype "F8_E4M3"; readable are F32, F16, BF16/,
  ],
  [
    'an index out of the folder',
    () => index({ [HEAD]: '../good/model.safetensors' }),
    /"\.\.\/good\/model\.safetensors" does not stay in the folder/,
  ],
  [
    'an index with an absolute path',
    () => index({ [HEAD]: `${good}/model.safetensors` }),
    /does not stay in the folder/,
  ],
  ['an index of a pickle', () => index({ [HEAD]: 'pytorch_model.bin' }), /not a \.safetensors file/],
  ['an index of a missing file', () => index({ [HEAD]: 'gone.safetensors' }), /gone\.safetensors is missing/],
  [
    'an index with a wrong place',
    () => index({ 'no.such': 'all.safetensors' }),
    /places the tensor "no\.such" in all\.safetensors, which lacks it/,
  ],
  ['an index without a map', () => index([]), /has no weight_map/],
  ['an empty index', () => index({}), /names 0 files; 1 to 512/],
  [
    'a tensor in two files',
    () => {
      index({ [HEAD]: 'all.safetensors', 'model.norm.weight': 'b.safetensors' });
      cpSync(pathOf('all.safetensors'), pathOf('b.safetensors'));
    },
    /both have the tensor/,
  ],
  [
    'weights that link out of the folder',
    () => {
      rmSync(pathOf(WEIGHTS));
      symlinkSync(join(good, WEIGHTS), pathOf(WEIGHTS));
    },
    /symbolic link out of the folder: copy the file/,
  ],
  [
    'a broken link',
    () => {
      rmSync(pathOf(WEIGHTS));
      symlinkSync('gone', pathOf(WEIGHTS));
    },
    /broken symbolic link/,
  ],
  [
    'a config.json that links to a device',
    () => {
      rmSync(pathOf('config.json'));
      symlinkSync('/dev/zero', pathOf('config.json'));
    },
    /symbolic link out/,
  ],
  ['no tokenizer', () => rmSync(pathOf('tokenizer.json')), /has no tokenizer\.json: download it as well/],
  [
    'only a SentencePiece tokenizer',
    () => renameSync(pathOf('tokenizer.json'), pathOf('tokenizer.model')),
    /SentencePiece tokenizer/,
  ],
  ['a unigram tokenizer', () => changeModel({ type: 'Unigram' }), /type "Unigram".*supported: BPE\. A GGUF file/],
  [
    'byte-level BPE that claims byte fallback',
    () => changeModel({ byte_fallback: true }),
    /pre-tokenizer "Sequence" .* SentencePiece's BPE/,
  ],
  [
    'a normalizer',
    () => change('tokenizer.json', { normalizer: { type: 'Lowercase' } }),
    /normalizer "Lowercase".*supported: none, or NFC/,
  ],
  [
    'another pattern',
    () =>
      change('tokenizer.json', {
        pre_tokenizer: {
          type: 'Sequence',
          pretokenizers: [
            { type: 'Split', pattern: { Regex: '(a+)+b' }, behavior: 'Isolated' },
            { type: 'ByteLevel', use_regex: false },
          ],
        },
      }),
    /splits words by "\(a\+\)\+b", which is not supported; supported are/,
  ],
  [
    'another pre-tokenizer',
    () => change('tokenizer.json', { pre_tokenizer: { type: 'Metaspace' } }),
    /pre-tokenizer "Metaspace"/,
  ],
  [
    'another post-processor',
    () => change('tokenizer.json', { post_processor: { type: 'BertProcessing' } }),
    /post-processor "BertProcessing"/,
  ],
  [
    'a token beyond the vocabulary',
    () => changeModel({ vocab: { a: 259 } }),
    /token "a".*below 259 \(`vocab_size`\), got 259/,
  ],
  ['two tokens of one id', () => changeModel({ vocab: { a: 1, b: 1 } }), /gives the id 1 to "a" and "b"/],
  [
    'an added token without an id',
    () => change('tokenizer.json', { added_tokens: [{ content: 'x' }] }),
    /`added_tokens`.*got \{"content":"x"\}/,
  ],
  [
    'a merge of three',
    () => changeModel({ merges: [['a', 'b', 'c']] }),
    /a merge of tokenizer\.json must be two texts/,
  ],
  [
    'no end token',
    () => {
      change('config.json', { eos_token_id: null });
      change('tokenizer_config.json', { eos_token: null });
    },
    /no end token is set: name it as `eos_token`/,
  ],
  [
    'three unusual end tokens',
    () => writeFileSync(pathOf('generation_config.json'), '{"eos_token_id": [258, 1, 2, 3]}'),
    /generation_config\.json has 3 unusual end tokens; at most 2/,
  ],
  [
    'a template that is a number',
    () => change('tokenizer_config.json', { chat_template: 7 }),
    /`chat_template` must be a template/,
  ],
  [
    'templates of one name',
    () =>
      change('tokenizer_config.json', {
        chat_template: [
          { name: 'a', template: '' },
          { name: 'a', template: '' },
        ],
      }),
    /with different names/,
  ],
])('%s is refused in one line, and nothing is written', async (_name, damage, message) => {
  damage();
  const directory = join(scratch, 'copies');
  mkdirSync(directory, { recursive: true });
  const error: unknown = await Promise.try(() => modelCopy(folderSource(folder), { directory })).catch(
    (failure: unknown) => failure,
  );
  expect(error).toBeInstanceOf(ModelFolderError);
  const text = (error as Error).message;
  expect(text).toMatch(message);
  expect(text).not.toContain('\n');
  expect(text.length).toBeLessThan(500);
  expect(readdirSync(directory)).toEqual([]);
});

test('a norm in bytes is refused before anything is converted', () => {
  const entries: Record<string, unknown> = {};
  const parts: Uint8Array[] = [];
  let end = 0;
  for (const { name, dims, data } of readSafetensors(pathOf(WEIGHTS)).tensors.values()) {
    const isByte = name === 'model.norm.weight';
    const bytes = isByte ? new Uint8Array(data.length) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    entries[name] = { dtype: isByte ? 'U8' : 'F32', shape: dims, data_offsets: [end, end + bytes.length] };
    end += bytes.length;
    parts.push(bytes);
  }
  header(entries, Buffer.concat(parts));
  expect(() => ModelFolder.open(folder)).toThrow('the tensor model.norm.weight is U8, and must be F32, F16 or BF16');
});

test('links of the Hugging Face cache are followed, and those to other repositories are not', () => {
  const cache = mkdtempSync(join(scratch, 'hub-'));
  const [blobs, snapshot] = [join(cache, 'models--org--name/blobs'), join(cache, 'models--org--name/snapshots/abc')];
  for (const path of [blobs, snapshot]) mkdirSync(path, { recursive: true });
  for (const name of readdirSync(folder)) {
    cpSync(pathOf(name), join(blobs, `digest-of-${name}`));
    symlinkSync(`../../blobs/digest-of-${name}`, join(snapshot, name));
  }
  using opened = ModelFolder.open(snapshot);
  expect(opened.metadata['general.name']).toBe('org--name');
  const other = join(cache, 'models--org--other/blobs');
  cpSync(blobs, other, { recursive: true });
  rmSync(join(snapshot, 'tokenizer.json'));
  symlinkSync('../../../models--org--other/blobs/digest-of-tokenizer.json', join(snapshot, 'tokenizer.json'));
  expect(() => ModelFolder.open(snapshot)).toThrow(/tokenizer\.json is a symbolic link out of the folder/);
});

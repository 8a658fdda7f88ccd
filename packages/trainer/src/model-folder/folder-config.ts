import { shown } from '@trainyard/native';
import { FAMILIES } from '@trainyard/transformer';
import { TRANSFORMERS_FAMILIES } from '../export/hugging-face-config.ts';
import type { FolderFiles } from './folder-files.ts';
import { isRecord } from './folder-files.ts';
import { ModelFolderError, unsupportedFolder } from './model-folder-error.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Traits of a family in config.json of transformers. */
interface FolderFamily {
  /** True for q, k and v alone, without a setting. */
  readonly hasQkvBias: boolean;
  /** Default of `head_dim`; null: hidden size / heads. */
  readonly headSize: number | null;
}

/** Families whose `model_type` is the name of their GGUF architecture. */
const FOLDER_FAMILIES: Readonly<Record<string, FolderFamily>> = {
  llama: { hasQkvBias: false, headSize: null },
  qwen2: { hasQkvBias: true, headSize: null },
  qwen3: { hasQkvBias: false, headSize: 128 },
};

export type RopeScaling =
  | { readonly kind: 'none' }
  | { readonly kind: 'linear'; readonly factor: number }
  | {
      readonly kind: 'llama3';
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalContextLength: number;
    };

/** Checked content of config.json. */
export interface FolderConfig {
  readonly architecture: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly feedForwardSize: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headSize: number;
  /** True if config.json has `head_dim`. */
  readonly statesHeadSize: boolean;
  /** Tokens. */
  readonly contextLength: number;
  readonly rmsEpsilon: number;
  readonly ropeBase: number;
  readonly ropeScaling: RopeScaling;
  readonly isTied: boolean;
  readonly hasHeadNorm: boolean;
  readonly hasInterleavedHeads: boolean;
  /** Linear layers with a bias. */
  readonly biases: { readonly qkv: boolean; readonly output: boolean; readonly feedForward: boolean };
}

const CONFIG_FILE = 'config.json';

/** @throws {ModelFolderError} with the field, its value and the limit */
export function readFolderConfig(files: FolderFiles): FolderConfig {
  if (!files.names.has(CONFIG_FILE))
    throw new ModelFolderError(`it has no ${CONFIG_FILE}: pass a GGUF file, or a folder in the Hugging Face format`);
  const fields = files.readJson(CONFIG_FILE);
  const [architecture, family] = familyOf(fields);
  refuseOtherComputations(fields);
  const hiddenSize = whole(fields, 'hidden_size', [1, 65_536]);
  const numHeads = whole(fields, 'num_attention_heads', [1, 1024]);
  const numKvHeads = whole(fields, 'num_key_value_heads', [1, 1024], numHeads);
  if (numHeads % numKvHeads !== 0)
    throw invalid('num_key_value_heads', 'a divisor of num_attention_heads', fields['num_key_value_heads']);
  const statesHeadSize = typeof fields['head_dim'] === 'number';
  const headSize = whole(fields, 'head_dim', [2, 1024], family.headSize ?? hiddenSize / numHeads);
  if (headSize % 2 !== 0) throw invalid('head_dim', 'even', headSize);
  const attentionBias = flag(fields, 'attention_bias');
  const rope = ropeOf(fields);
  return {
    architecture,
    vocabSize: whole(fields, 'vocab_size', [1, 1 << 20]),
    hiddenSize,
    feedForwardSize: whole(fields, 'intermediate_size', [1, 1 << 20]),
    numLayers: whole(fields, 'num_hidden_layers', [1, 512]),
    numHeads,
    numKvHeads,
    headSize,
    statesHeadSize,
    contextLength: whole(fields, 'max_position_embeddings', [1, 1 << 27]),
    rmsEpsilon: real(fields, 'rms_norm_eps', [1e-12, 1], 1e-6),
    ropeBase: real({ ...fields, ...rope }, 'rope_theta', [1, 1e12], 10_000),
    ropeScaling: ropeScalingOf(rope),
    isTied: flag(fields, 'tie_word_embeddings'),
    hasHeadNorm: TRANSFORMERS_FAMILIES[architecture]!.hasHeadNorm,
    hasInterleavedHeads: FAMILIES[architecture]!.hasInterleavedHeads,
    biases: {
      qkv: family.hasQkvBias || attentionBias,
      output: !family.hasQkvBias && attentionBias,
      feedForward: flag(fields, 'mlp_bias'),
    },
  };
}

function familyOf(fields: Fields): [string, FolderFamily] {
  const name = fields['model_type'];
  const family = typeof name === 'string' && Object.hasOwn(FOLDER_FAMILIES, name) ? FOLDER_FAMILIES[name] : undefined;
  if (typeof name !== 'string' || family === undefined)
    throw unsupportedFolder(
      `folders of the family ${shown(name)} (\`model_type\` in ${CONFIG_FILE}) are not supported; supported: ${Object.keys(FOLDER_FAMILIES).join(', ')}`,
    );
  const { className } = TRANSFORMERS_FAMILIES[name]!;
  const classes = fields['architectures'];
  if (Array.isArray(classes) && classes.length > 0 && !classes.includes(className))
    throw unsupportedFolder(
      `${CONFIG_FILE} names the class ${shown(classes[0])}; of the family ${name}, ${className} is supported`,
    );
  return [name, family];
}

/** Settings that change the computation, with the values under which it is the family's. */
function refuseOtherComputations(fields: Fields): void {
  if (isRecord(fields['quantization_config']))
    throw unsupportedFolder(
      `the weights are quantised (${shown(fields['quantization_config']['quant_method'])}); use the repository with F32, F16 or BF16 weights`,
    );
  const activation = fields['hidden_act'] ?? 'silu';
  if (activation !== 'silu') throw unsupportedFolder(`\`hidden_act\` is ${shown(activation)}; only silu is supported`);
  const layers = fields['layer_types'];
  const slides = Array.isArray(layers) ? layers.some((type) => type !== 'full_attention') : false;
  if (slides || fields['use_sliding_window'] === true)
    throw unsupportedFolder('sliding attention windows are not supported');
}

/** Rope settings of any release of transformers. */
function ropeOf(fields: Fields): Fields {
  const rope = fields['rope_parameters'] ?? fields['rope_scaling'] ?? {};
  if (!isRecord(rope) || Object.values(rope).some(isRecord))
    throw invalid('rope_parameters', 'one set of values for all layers', rope);
  const part = rope['partial_rotary_factor'] ?? fields['partial_rotary_factor'] ?? 1;
  if (part !== 1) throw unsupportedFolder(`\`partial_rotary_factor\` is ${shown(part)}; only 1 is supported`);
  return rope;
}

function ropeScalingOf(rope: Fields): RopeScaling {
  const kind = rope['rope_type'] ?? rope['type'] ?? 'default';
  switch (kind) {
    case 'default':
      return { kind: 'none' };
    case 'linear':
      return { kind: 'linear', factor: real(rope, 'factor', [1e-3, 1e6]) };
    case 'llama3': {
      const lowFrequencyFactor = real(rope, 'low_freq_factor', [1e-3, 1e6], 1);
      const highFrequencyFactor = real(rope, 'high_freq_factor', [1e-3, 1e6], 4);
      if (highFrequencyFactor <= lowFrequencyFactor)
        throw invalid('high_freq_factor', `above low_freq_factor (${lowFrequencyFactor})`, highFrequencyFactor);
      return {
        kind: 'llama3',
        factor: real(rope, 'factor', [1e-3, 1e6], 8),
        lowFrequencyFactor,
        highFrequencyFactor,
        originalContextLength: whole(rope, 'original_max_position_embeddings', [1, 1 << 27], 8192),
      };
    }
    default:
      throw unsupportedFolder(`rope scaling ${shown(kind)} is not supported; supported: default, linear, llama3`);
  }
}

type Range = readonly [least: number, most: number];

function whole(fields: Fields, name: string, [least, most]: Range, otherwise?: number): number {
  const value = fields[name] ?? otherwise;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw invalid(name, `a whole number from ${least} to ${most}`, value);
}

function real(fields: Fields, name: string, [least, most]: Range, otherwise?: number): number {
  const value = fields[name] ?? otherwise;
  if (typeof value === 'number' && value >= least && value <= most) return value;
  throw invalid(name, `a number from ${least} to ${most}`, value);
}

function flag(fields: Fields, name: string): boolean {
  const value = fields[name] ?? false;
  if (typeof value === 'boolean') return value;
  throw invalid(name, 'true or false', value);
}

const invalid = (name: string, needed: string, value: unknown) =>
  new ModelFolderError(`\`${name}\` in ${CONFIG_FILE} must be ${needed}, got ${shown(value)}`);

import { shown } from '@trainyard/native';
import {
  type Architecture,
  embeddingScaleOf,
  FAMILIES,
  type LongRope,
  longRopeMagnitude,
  type Yarn,
  yarnMagnitude,
} from '@trainyard/transformer';
import { CONFIG_FILE, type Fields, flag, invalid, real, whole } from './config-fields.ts';
import { type FolderFiles, isRecord } from './folder-files.ts';
import { ModelFolderError, unsupportedFolder } from './model-folder-error.ts';
import { TRANSFORMERS_FAMILIES, type TransformersFamily } from './transformers-families.ts';

export type RopeScaling =
  | { readonly kind: 'none' }
  | { readonly kind: 'linear'; readonly factor: number }
  | ({ readonly kind: 'yarn' } & Yarn)
  | ({ readonly kind: 'longrope' } & LongRope & Readonly<Record<'short' | 'long', readonly number[]>>)
  | {
      readonly kind: 'llama3';
      readonly factor: number;
      readonly lowFrequencyFactor: number;
      readonly highFrequencyFactor: number;
      readonly originalContextLength: number;
    };

/** Checked content of config.json. */
export interface FolderConfig {
  /** As its GGUF file has it. */
  readonly architecture: Architecture;
  readonly family: TransformersFamily;
  /** True if config.json has `head_dim`. */
  readonly statesHeadSize: boolean;
  /** Tokens. */
  readonly contextLength: number;
  /** Tokens of the context before any scaling; null for families whose files do not state it. */
  readonly originalContext: number | null;
  readonly ropeScaling: RopeScaling;
  /** Frequencies of rope by dimension of an image, which GGUF files of the family state; null if they do not. */
  readonly ropeSections: readonly number[] | null;
  readonly isTied: boolean;
  /** Linear layers with a bias. */
  readonly biases: { readonly qkv: boolean; readonly output: boolean; readonly feedForward: boolean };
}

/** @throws {ModelFolderError} with the field, its value and the limit */
export function readFolderConfig(files: FolderFiles): FolderConfig {
  if (!files.names.has(CONFIG_FILE))
    throw new ModelFolderError(`it has no ${CONFIG_FILE}: pass a GGUF file, or a folder in the Hugging Face format`);
  return folderConfig(files.readJson(CONFIG_FILE));
}

/** @throws {ModelFolderError} with the field, its value and the limit */
export function folderConfig(own: Fields): FolderConfig {
  const family = familyOf(own);
  const fields = family.usual(own);
  const inGguf = FAMILIES[family.architecture]!;
  refuseOtherComputations(fields, family);
  const hiddenSize = whole(fields, 'hidden_size', [1, 65_536]);
  const numHeads = whole(fields, 'num_attention_heads', [1, 1024]);
  const numKvHeads = whole(fields, 'num_key_value_heads', [1, 1024], numHeads);
  if (numHeads % numKvHeads !== 0)
    throw invalid('num_key_value_heads', 'a divisor of num_attention_heads', fields['num_key_value_heads']);
  const headSize = whole(fields, 'head_dim', [2, 1024], family.headSize ?? hiddenSize / numHeads);
  if (headSize % 2 !== 0) throw invalid('head_dim', 'even', headSize);
  const numLayers = whole(fields, 'num_hidden_layers', [1, 512]);
  const hasAttentionBias =
    family.hasQkvBias || inGguf.hasSinks || (flag(fields, 'attention_bias') && !inGguf.hasFusedLinears);
  const rope = ropeOf(fields);
  // Releases of transformers store these in different places.
  const withRope = { ...fields, ...rope };
  const rotatedSize = rotatedSizeOf(withRope, headSize, inGguf.ropeIsPartial);
  const ropeBase = real(withRope, 'rope_theta', [1, 1e12], 10_000);
  const contextLength = whole(fields, 'max_position_embeddings', [1, 1 << 27]);
  const originalContext =
    family.originalContext === null
      ? null
      : whole(withRope, 'original_max_position_embeddings', [2, 1 << 27], family.originalContext);
  const ropeScaling = ropeScalingOf(rope, {
    contextLength,
    originalContext,
    rotatedSize,
    yarnIsRounded: inGguf.yarnIsRounded,
  });
  return {
    architecture: {
      name: family.architecture,
      vocabSize: whole(fields, 'vocab_size', [1, 1 << 20]),
      hiddenSize,
      feedForwardSize: whole(fields, family.feedForwardSize, [1, 1 << 20]),
      numLayers,
      numHeads,
      numKvHeads,
      headSize,
      rotatedSize: rotatedSize === headSize ? null : rotatedSize,
      rmsEpsilon: real(fields, 'rms_norm_eps', [1e-12, 1], 1e-6),
      ropeBase,
      ropeScale: ropeScaling.kind === 'linear' ? ropeScaling.factor : 1,
      yarn: ropeScaling.kind === 'yarn' ? yarnOf(ropeScaling) : null,
      longRope: ropeScaling.kind === 'longrope' ? longRopeOf(ropeScaling) : null,
      hasFusedLinears: inGguf.hasFusedLinears,
      hasAttentionBias,
      hasSinks: inGguf.hasSinks,
      hasOutputGate: inGguf.hasDeltaNets,
      queryKeyNorm: family.queryKeyNorm,
      hasInterleavedHeads: inGguf.hasInterleavedHeads,
      activation: inGguf.activation,
      norms: inGguf.norms,
      embeddingScale: embeddingScaleOf(inGguf, hiddenSize),
      attentionScale: null,
      residualScale: 1,
      logitScale: 1,
      window: null,
      unrotatedPeriod: null,
      experts: null,
      convolution: null,
      deltaNet: null,
      ...family.traits(fields, numLayers, ropeBase),
    },
    family,
    statesHeadSize: typeof fields['head_dim'] === 'number',
    contextLength,
    originalContext,
    ropeScaling,
    ropeSections: inGguf.hasDeltaNets ? ropeSectionsOf(rope) : null,
    isTied: flag(fields, 'tie_word_embeddings', family.isTied),
    biases: {
      qkv: hasAttentionBias,
      output: hasAttentionBias && !family.hasQkvBias,
      feedForward: flag(fields, 'mlp_bias'),
    },
  };
}

function familyOf(fields: Fields): TransformersFamily {
  const name = fields['model_type'];
  const family =
    typeof name === 'string' && Object.hasOwn(TRANSFORMERS_FAMILIES, name) ? TRANSFORMERS_FAMILIES[name] : undefined;
  if (typeof name !== 'string' || family === undefined)
    throw unsupportedFolder(
      `folders of the family ${shown(name)} (\`model_type\` in ${CONFIG_FILE}) are not supported; supported: ${Object.keys(TRANSFORMERS_FAMILIES).join(', ')}`,
    );
  const { className } = family;
  const classes = fields['architectures'];
  if (Array.isArray(classes) && classes.length > 0 && !classes.includes(className))
    throw unsupportedFolder(
      `${CONFIG_FILE} names the class ${shown(classes[0])}; of the family ${name}, ${className} is supported`,
    );
  return family;
}

const ACTIVATIONS = { silu: 'silu', gelu: 'gelu_pytorch_tanh', clamped: 'silu' } as const;

/** Settings that change the computation, with the values under which it is the family's. */
function refuseOtherComputations(fields: Fields, { architecture, hasWindows, layerTypes }: TransformersFamily): void {
  const quantization = fields['quantization_config'];
  if (isRecord(quantization) && !(quantization['quant_method'] === 'mxfp4' && FAMILIES[architecture]!.hasSinks))
    throw unsupportedFolder(
      `the weights are quantised (${shown(quantization['quant_method'])}); use the repository with F32, F16 or BF16 weights`,
    );
  const supported = ACTIVATIONS[FAMILIES[architecture]!.activation];
  const activation = fields['hidden_activation'] ?? fields['hidden_act'] ?? supported;
  if (activation !== supported)
    throw unsupportedFolder(`\`hidden_act\` is ${shown(activation)}; only ${supported} is supported`);
  const layers = fields['layer_types'];
  const slides = Array.isArray(layers) ? layers.some((type) => !layerTypes.includes(type)) : false;
  if ((slides && !hasWindows) || fields['use_sliding_window'] === true)
    throw unsupportedFolder('sliding attention windows are not supported');
}

/** Rope settings of any release of transformers. */
function ropeOf(fields: Fields): Fields {
  const rope = fields['rope_parameters'] ?? fields['rope_scaling'] ?? {};
  if (!isRecord(rope) || Object.values(rope).some(isRecord))
    throw invalid('rope_parameters', 'one set of values for all layers', rope);
  return rope;
}

/** Four numbers, as llama.cpp's converter writes them. */
function ropeSectionsOf(rope: Fields): readonly number[] {
  const stated = rope['mrope_section'] ?? [11, 11, 10];
  const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= 512;
  if (!Array.isArray(stated) || stated.length > 4 || !stated.every(isCount))
    throw invalid('mrope_section', 'at most four whole numbers', stated);
  return [...(stated as number[]), 0, 0, 0, 0].slice(0, 4);
}

/** Dimensions of a head that rope rotates. */
function rotatedSizeOf(fields: Fields, headSize: number, isPartial: boolean): number {
  const part = real(fields, 'partial_rotary_factor', [0, 1], 1);
  if (part === 1) return headSize;
  if (!isPartial) throw unsupportedFolder(`\`partial_rotary_factor\` is ${part}; only 1 is supported`);
  const rotated = Math.trunc(headSize * part);
  if (rotated < 2 || rotated % 2 !== 0)
    throw unsupportedFolder(
      `\`partial_rotary_factor\` of ${part} rotates ${rotated} of ${headSize} dimensions, not an even number`,
    );
  return rotated;
}

const longRopeOf = ({ originalContext, magnitude }: LongRope): LongRope => ({ originalContext, magnitude });

const yarnOf = ({ factor, originalContext, betaFast, betaSlow, isRounded }: Yarn): Yarn => ({
  factor,
  originalContext,
  betaFast,
  betaSlow,
  isRounded,
});

/** @throws {ModelFolderError} for yarn that GGUF files have no settings for */
function readYarn(rope: Fields, { contextLength, yarnIsRounded }: RopeSizes): Yarn {
  const yarn = {
    factor: real(rope, 'factor', [1, 1e6]),
    originalContext: whole(rope, 'original_max_position_embeddings', [1, 1 << 27], contextLength),
    betaFast: real(rope, 'beta_fast', [1e-3, 1e6], 32),
    betaSlow: real(rope, 'beta_slow', [1e-9, 1e6], 1),
    isRounded: yarnIsRounded,
  };
  const usual = yarnMagnitude(yarn);
  const stated = real(rope, 'attention_factor', [1e-3, 1e6], usual);
  if (Math.abs(stated - usual) > 1e-4 * usual)
    throw unsupportedFolder(`yarn with an \`attention_factor\` of ${stated} is not supported; supported: ${usual}`);
  const isRounded = flag(rope, 'truncate', true);
  if (isRounded !== yarnIsRounded)
    throw unsupportedFolder(`yarn with \`truncate\`: ${isRounded} is not supported for this family`);
  for (const name of ['mscale', 'mscale_all_dim'])
    if ((rope[name] ?? 0) !== 0) throw unsupportedFolder(`yarn with \`${name}\` is not supported`);
  return yarn;
}

interface RopeSizes {
  readonly contextLength: number;
  readonly originalContext: number | null;
  readonly rotatedSize: number;
  readonly yarnIsRounded: boolean;
}

/** @throws {ModelFolderError} for factors of another number, and a magnitude that GGUF converters do not write */
function readLongRope(rope: Fields, sizes: RopeSizes, original: number): RopeScaling {
  const magnitude = longRopeMagnitude(sizes.contextLength, original);
  const stated = real(rope, 'attention_factor', [1e-3, 1e6], magnitude);
  if (Math.abs(stated - magnitude) > 1e-4 * magnitude)
    throw unsupportedFolder(
      `longrope with an \`attention_factor\` of ${stated} is not supported; supported: ${magnitude}`,
    );
  const factors = (name: 'short_factor' | 'long_factor'): readonly number[] => {
    const values = rope[name];
    const isFactor = (value: unknown) => typeof value === 'number' && value > 0 && Number.isFinite(Math.fround(value));
    if (Array.isArray(values) && values.length === sizes.rotatedSize / 2 && values.every(isFactor)) return values;
    throw invalid(name, `${sizes.rotatedSize / 2} positive numbers, half of the rotated dimensions of a head`, values);
  };
  return {
    kind: 'longrope',
    originalContext: original,
    magnitude: Math.fround(magnitude),
    short: factors('short_factor'),
    long: factors('long_factor'),
  };
}

function ropeScalingOf(rope: Fields, sizes: RopeSizes): RopeScaling {
  const { originalContext } = sizes;
  const kind = rope['rope_type'] ?? rope['type'] ?? 'default';
  if (originalContext !== null) {
    // `su` and `yarn` are older names of this family's scaling.
    if ((kind === 'longrope' || kind === 'su' || kind === 'yarn') && rope['long_factor'] !== undefined)
      return readLongRope(rope, sizes, originalContext);
    if (kind === 'default') return { kind: 'none' };
    throw unsupportedFolder(`rope scaling ${shown(kind)} is not supported; supported: default, longrope`);
  }
  switch (kind) {
    case 'default':
      return { kind: 'none' };
    case 'linear':
      return { kind: 'linear', factor: real(rope, 'factor', [1e-3, 1e6]) };
    case 'yarn':
      return { kind: 'yarn', ...readYarn(rope, sizes) };
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
      throw unsupportedFolder(`rope scaling ${shown(kind)} is not supported; supported: default, linear, llama3, yarn`);
  }
}

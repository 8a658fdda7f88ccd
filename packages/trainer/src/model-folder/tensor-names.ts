import {
  type Architecture,
  CONVOLUTION_LINEAR_NAMES,
  CONVOLUTION_TENSOR,
  DELTA_LINEAR_NAMES,
  DELTA_TENSORS,
  FUSED_LINEAR_NAMES,
  GGUF_LINEARS,
  LINEAR_NAMES,
  type LinearName,
  parentModule,
  SINKS_TENSOR,
  targetModule,
} from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';

/** Tensors outside the blocks. */
const OUTER: Readonly<Record<string, string>> = {
  'token_embd.weight': 'model.embed_tokens.weight',
  'output_norm.weight': 'model.norm.weight',
  'token_embd_norm.weight': 'model.embedding_norm.weight',
  'output.weight': 'lm_head.weight',
};

const linearParts = (linears: readonly LinearName[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    linears.map((linear) => [GGUF_LINEARS[linear], `${parentModule(linear)}.${targetModule(linear)}`]),
  );

/** Parts of a block. */
const PARTS: Readonly<Record<string, string>> = {
  ...linearParts(LINEAR_NAMES),
  attn_norm: 'input_layernorm',
  attn_q_norm: 'self_attn.q_norm',
  attn_k_norm: 'self_attn.k_norm',
  ffn_norm: 'post_attention_layernorm',
  post_attention_norm: 'post_attention_layernorm',
  post_ffw_norm: 'post_feedforward_layernorm',
};

/** The same with norms before and after attention and feed-forward, which change the meaning of a name. */
const PARTS_WITH_FOUR_NORMS: Readonly<Record<string, string>> = {
  ...PARTS,
  ffn_norm: 'pre_feedforward_layernorm',
};

/** Parts of a block with fused layers, which has fewer norms. */
const PARTS_WITH_FUSED_LINEARS: Readonly<Record<string, string>> = {
  ...linearParts(FUSED_LINEAR_NAMES),
  attn_norm: 'input_layernorm',
  ffn_norm: 'post_attention_layernorm',
};

/** Parts of a block of LFM2. */
const PARTS_WITH_CONVOLUTIONS: Readonly<Record<string, string>> = {
  ...linearParts(CONVOLUTION_LINEAR_NAMES),
  attn_norm: 'operator_norm',
  attn_q_norm: 'self_attn.q_layernorm',
  attn_k_norm: 'self_attn.k_layernorm',
  'shortconv.conv': 'conv.conv',
  ffn_norm: 'ffn_norm',
};

/** Parts of a block of Qwen3.5. */
const PARTS_WITH_DELTA_NETS: Readonly<Record<string, string>> = {
  ...PARTS,
  ...linearParts(DELTA_LINEAR_NAMES),
  ssm_conv1d: 'linear_attn.conv1d',
  ssm_norm: 'linear_attn.norm',
};

/** Parameters of a module of a block, which are no weights or biases of modules of their own. */
const PARAMETERS: Readonly<Record<string, string>> = {
  [SINKS_TENSOR]: 'self_attn.sinks',
  [DELTA_TENSORS.decay]: 'linear_attn.A_log',
  [DELTA_TENSORS.step]: 'linear_attn.dt_bias',
};

function partsOf({ norms, hasFusedLinears, convolution, deltaNet }: NameTraits): Readonly<Record<string, string>> {
  if (deltaNet !== null) return PARTS_WITH_DELTA_NETS;
  if (convolution !== null) return PARTS_WITH_CONVOLUTIONS;
  if (hasFusedLinears) return PARTS_WITH_FUSED_LINEARS;
  return norms.before && norms.after ? PARTS_WITH_FOUR_NORMS : PARTS;
}

/** Traits that decide the names of tensors. */
type NameTraits = Pick<Architecture, 'norms' | 'hasFusedLinears' | 'convolution' | 'deltaNet'>;

/** Row-major sizes of a tensor with one name, whose values are those of the GGUF tensor: convolutions have channels. */
export const huggingFaceDims = (ggufName: string, dims: readonly number[]): readonly number[] =>
  [CONVOLUTION_TENSOR, DELTA_TENSORS.convolution].some((part) => ggufName.endsWith(`.${part}`))
    ? [dims[0]!, 1, dims[1]!]
    : dims;

/**
 * Name of a tensor that is no router or expert.
 *
 * @throws {TrainerError} `trainer.architecture_unsupported` for a tensor without such a name
 */
export function huggingFaceName(ggufName: string, architecture: NameTraits): string {
  const outer = OUTER[ggufName];
  if (outer !== undefined) return outer;
  const [, block, whole] = /^blk\.(\d+)\.(.+)$/.exec(ggufName) ?? [];
  const parameter = whole === undefined ? undefined : PARAMETERS[whole];
  if (parameter !== undefined) return `model.layers.${block}.${parameter}`;
  const [, layer, part, kind] = /^blk\.(\d+)\.([\w.]+)\.(weight|bias)$/.exec(ggufName) ?? [];
  const inner = part === undefined ? undefined : partsOf(architecture)[part];
  if (inner !== undefined) return `model.layers.${layer}.${inner}.${kind}`;
  throw new TrainerError(
    'trainer.architecture_unsupported',
    `the tensor ${ggufName} of the base model does not fit the format merged-safetensors; use merged-gguf`,
  );
}

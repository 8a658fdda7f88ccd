/** LoRA values in the two public adapter formats. */
import {
  type Architecture,
  GGUF_LINEARS,
  isUniform,
  type LinearName,
  modulePath,
  moduleShape,
  orderValueHeads,
  toInterleaved,
} from '@trainyard/transformer';
import type { LoraParameters, LoraTensor } from './policy-model.ts';

export interface AdapterTensor {
  readonly name: string;
  readonly dims: readonly number[];
  readonly data: Float32Array;
}

/** An adapter in llama.cpp's format, which has one alpha and multiplies a module by alpha / its own rank. */
export interface GgufAdapter {
  /** 0 for no factor: the scale is in `b`. */
  readonly alpha: number;
  readonly tensors: readonly AdapterTensor[];
}

/** Adapter for llama.cpp. Scales that one alpha cannot express are multiplied into `b`, in single precision. */
export function ggufAdapter(lora: LoraParameters, architecture: Architecture): GgufAdapter {
  const tensors = ggufAdapterTensors(lora, architecture);
  if (isUniform(lora.config)) return { alpha: lora.config.alpha, tensors };
  const scaled = tensors.map((tensor, index) => {
    const { layer, linear, half } = lora.tensors[index]!;
    if (half === 'a') return tensor;
    const { scale } = moduleShape(lora.config, layer, linear);
    return { ...tensor, data: tensor.data.map((value) => value * scale) };
  });
  return { alpha: 0, tensors: scaled };
}

/**
 * llama.cpp's tensors: `blk.3.attn_q.weight.lora_a`, dims with the contiguous axis first (`a`: [in, rank], `b`:
 * [rank, out]). If the model file interleaves heads, rows of q's and k's `b` are permuted. Unchanged data is
 * shared. Same order as `lora.tensors`.
 */
export function ggufAdapterTensors(lora: LoraParameters, architecture: Architecture): AdapterTensor[] {
  return lora.tensors.map((tensor) => ({
    name: `blk.${tensor.layer}.${GGUF_LINEARS[tensor.linear]}.weight.lora_${tensor.half}`,
    dims: [tensor.dims[1], tensor.dims[0]],
    data: architecture.hasInterleavedHeads ? interleaved(tensor, architecture) : tensor.value,
  }));
}

/**
 * PEFT's tensors: `base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight`, dims row-major,
 * half-rotation heads, value heads in groups. Data that does not change is shared.
 */
export function peftTensors(lora: LoraParameters): AdapterTensor[] {
  return lora.tensors.map((tensor) => ({
    name: peftTensorName(tensor),
    dims: tensor.dims,
    data: orderValueHeads(tensor.value, tensor.valueHeads, 'groups'),
  }));
}

/** Format: `model.layers.3.self_attn.q_proj`. */
export const peftModuleName = (layer: number, linear: LinearName): string => `model.${modulePath(layer, linear)}`;

export const peftTensorName = (tensor: Pick<LoraTensor, 'layer' | 'linear' | 'half'>): string =>
  `base_model.model.${peftModuleName(tensor.layer, tensor.linear)}.lora_${tensor.half.toUpperCase()}.weight`;

function interleaved(tensor: LoraTensor, architecture: Architecture): Float32Array {
  if (tensor.half === 'a' || (tensor.linear !== 'q' && tensor.linear !== 'k')) return tensor.value;
  const numHeads = tensor.linear === 'q' ? architecture.numHeads : architecture.numKvHeads;
  return toInterleaved(tensor.value, numHeads, tensor.dims[1]);
}

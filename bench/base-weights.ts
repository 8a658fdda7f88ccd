import { GgufFile } from '@trainyard/native';
import { writeSafetensors, type NamedTensor } from '@trainyard/trainer';

const BLOCK_TENSORS: Readonly<Record<string, string>> = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
};

/** Keyword arguments of transformers' `LlamaConfig`. */
export type LlamaConfig = Readonly<Record<string, number | boolean>>;

/**
 * Writes the weights of a llama-architecture GGUF file, dequantised, with transformers' names and layout.
 * @returns the configuration from the file's header
 */
export function writeBaseWeights(modelPath: string, safetensorsPath: string): LlamaConfig {
  const file = GgufFile.open(modelPath);
  try {
    const number = (key: string) => Number(file.metadata.get(`llama.${key}`));
    const [numHeads, numKvHeads] = [number('attention.head_count'), number('attention.head_count_kv')];
    const tensors: NamedTensor[] = [];
    const add = (from: string, to: string, numInterleavedHeads = 0) => {
      const { dims } = file.tensors.get(from)!;
      const data = file.readF32(from);
      const plain = numInterleavedHeads === 0 ? data : inHalves(data, numInterleavedHeads, dims[0]!);
      tensors.push({ name: to, dims: dims.toReversed(), data: plain });
    };
    add('token_embd.weight', 'model.embed_tokens.weight');
    add('output_norm.weight', 'model.norm.weight');
    const numLayers = number('block_count');
    for (let layer = 0; layer < numLayers; layer++) {
      for (const [from, to] of Object.entries(BLOCK_TENSORS)) {
        const heads = from === 'attn_q' ? numHeads : from === 'attn_k' ? numKvHeads : 0;
        add(`blk.${layer}.${from}.weight`, `model.layers.${layer}.${to}.weight`, heads);
      }
    }
    const isTied = !file.tensors.has('output.weight');
    if (!isTied) add('output.weight', 'lm_head.weight');
    writeSafetensors(safetensorsPath, tensors, { format: 'pt' });
    return {
      vocab_size: file.tensors.get('token_embd.weight')!.dims[1]!,
      hidden_size: number('embedding_length'),
      intermediate_size: number('feed_forward_length'),
      num_hidden_layers: numLayers,
      num_attention_heads: numHeads,
      num_key_value_heads: numKvHeads,
      rms_norm_eps: number('attention.layer_norm_rms_epsilon'),
      rope_theta: number('rope.freq_base'),
      max_position_embeddings: number('context_length'),
      tie_word_embeddings: isTied,
    };
  } finally {
    file.close();
  }
}

/**
 * Llama files store heads for interleaved rope; transformers rotates halves: row 2j + i of a head is row
 * i·D/2 + j.
 */
function inHalves(matrix: Float32Array, numHeads: number, columns: number): Float32Array {
  const numRows = matrix.length / columns;
  const headSize = numRows / numHeads;
  const result = new Float32Array(matrix.length);
  for (let row = 0; row < numRows; row++) {
    const [head, within] = [Math.floor(row / headSize), row % headSize];
    const to = head * headSize + (within % 2) * (headSize / 2) + Math.floor(within / 2);
    result.set(matrix.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return result;
}

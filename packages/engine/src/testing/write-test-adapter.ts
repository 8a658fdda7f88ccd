import { writeGguf, type LlamaModel } from '@trainyard/native';

/**
 * Writes an adapter file of rank 2 on one matrix of a model.
 *
 * @param value of all of its second half: 0 changes nothing
 * @returns the path
 */
export function writeTestAdapter(
  { architecture, embeddingLength: width }: Pick<LlamaModel, 'architecture' | 'embeddingLength'>,
  path: string,
  value: number,
): string {
  writeGguf(
    path,
    {
      'general.type': 'adapter',
      'general.architecture': architecture,
      'adapter.type': 'lora',
      'adapter.lora.alpha': 2,
    },
    [
      {
        name: 'blk.0.attn_q.weight.lora_a',
        dims: [width, 2],
        data: Float32Array.from({ length: 2 * width }, (_, i) => Math.sin(i)),
      },
      { name: 'blk.0.attn_q.weight.lora_b', dims: [2, width], data: new Float32Array(2 * width).fill(value) },
    ],
  );
  return path;
}

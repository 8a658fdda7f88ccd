import { writeGguf } from '@trainyard/native';
import { linearDims, linearNames, linearsIn, type Architecture } from '../model/architecture.ts';
import { GGUF_LINEARS } from '../model/gguf-linears.ts';
import type { LinearName, LoraHalf } from '../model/lora-config.ts';

/**
 * Writes an adapter file in llama.cpp's format.
 *
 * @param valueOf each value of a half, in file order
 * @returns the path
 */
export function writeAdapter(
  path: string,
  architecture: Architecture,
  options: { readonly rank: number; readonly alpha: number; readonly linears?: readonly LinearName[] },
  valueOf: (half: LoraHalf, index: number) => number,
): string {
  const { rank, alpha, linears = linearNames(architecture) } = options;
  const half = (name: LoraHalf, length: number) => Float32Array.from({ length }, (_, index) => valueOf(name, index));
  const tensors = Array.from({ length: architecture.numLayers }, (_, layer) =>
    linears
      .filter((linear) => linearsIn(architecture, layer).includes(linear))
      .flatMap((linear) => {
        const dims = linearDims(architecture, linear);
        const prefix = `blk.${layer}.${GGUF_LINEARS[linear]}.weight.lora_`;
        return [
          { name: `${prefix}a`, dims: [dims.in, rank], data: half('a', dims.in * rank) },
          { name: `${prefix}b`, dims: [rank, dims.out], data: half('b', dims.out * rank) },
        ];
      }),
  );
  const metadata = { 'general.type': 'adapter', 'general.architecture': architecture.name, 'adapter.type': 'lora' };
  writeGguf(path, { ...metadata, 'adapter.lora.alpha': alpha }, tensors.flat());
  return path;
}

import type { GgufFile } from '@trainyard/native';
import { UnsupportedModelError } from '../contract/errors.ts';
import type { Architecture } from './architecture.ts';
import { linearDims, linearNames, linearsIn } from './architecture.ts';
import { inHalves } from './head-permutation.ts';
import type { LinearName } from './lora-config.ts';
import { GGUF_LINEARS } from './gguf-linears.ts';

export interface LinearAdapter {
  readonly rank: number;
  /** [rank, in] */
  readonly a: Float32Array;
  /** [out, rank], multiplied by `alpha / rank`; q and k in half-rotation order. */
  readonly b: Float32Array;
}

/** Adapters by layer; linear layers without an adapter are absent. */
export type AdapterWeights = readonly Readonly<Partial<Record<LinearName, LinearAdapter>>>[];

const TENSOR = /^blk\.(\d+)\.([\w.]+)\.weight\.lora_([ab])$/;

/**
 * Reads an adapter in llama.cpp's format: `blk.3.attn_q.weight.lora_a` [rank, in] and `lora_b` [out, rank] for
 * each adapted linear layer.
 *
 * @throws {UnsupportedModelError} if it does not fit the architecture and sizes, with the difference;
 * {NativeError} if the file is unreadable
 */
export function readAdapterFile(
  file: Pick<GgufFile, 'metadata' | 'tensors' | 'readF32'>,
  architecture: Architecture,
): AdapterWeights {
  const kind = file.metadata.get('general.type');
  if (kind !== 'adapter' || file.metadata.get('adapter.type') !== 'lora')
    throw new UnsupportedModelError(`the file is not a LoRA adapter: general.type is ${JSON.stringify(kind ?? null)}`);
  const name = file.metadata.get('general.architecture');
  if (name !== architecture.name)
    throw new UnsupportedModelError(
      `the adapter is for architecture ${JSON.stringify(name)}, the model is "${architecture.name}"`,
    );
  const alpha = Number(file.metadata.get('adapter.lora.alpha') ?? 0);
  const linears = new Map(linearNames(architecture).map((linear) => [GGUF_LINEARS[linear], linear]));
  const layers: Partial<Record<LinearName, LinearAdapter>>[] = Array.from(
    { length: architecture.numLayers },
    () => ({}),
  );
  for (const tensor of file.tensors.keys()) {
    const [, layer, matrix, half] = TENSOR.exec(tensor) ?? [];
    const linear = linears.get(matrix ?? '');
    const adapted = layers[Number(layer)];
    if (linear === undefined || adapted === undefined || !linearsIn(architecture, Number(layer)).includes(linear))
      throw new UnsupportedModelError(
        `the adapter has a tensor ${tensor}, which does not belong to a linear layer of this model`,
      );
    if (half === 'b') {
      if (!file.tensors.has(`${tensor.slice(0, -1)}a`))
        throw new UnsupportedModelError(`the adapter has ${tensor} without its A matrix`);
      continue;
    }
    adapted[linear] = readLinear(file, architecture, { linear, prefix: tensor.slice(0, -1) }, alpha);
  }
  return layers;
}

function readLinear(
  file: Pick<GgufFile, 'tensors' | 'readF32'>,
  architecture: Architecture,
  { linear, prefix }: { readonly linear: LinearName; readonly prefix: string },
  alpha: number,
): LinearAdapter {
  const dims = linearDims(architecture, linear);
  const [aDims, bDims] = ['a', 'b'].map((half) => file.tensors.get(`${prefix}${half}`)?.dims);
  const rank = aDims?.[1] ?? 0;
  if (aDims?.[0] !== dims.in || rank < 1 || bDims?.[0] !== rank || bDims[1] !== dims.out) {
    throw new UnsupportedModelError(
      `${prefix}a and ${prefix}b are [${aDims?.join() ?? ''}] and [${bDims?.join() ?? 'missing'}], the model needs [${dims.in},r] and [r,${dims.out}]`,
    );
  }
  // As in llama.cpp, alpha 0 means no scale.
  const scale = alpha === 0 ? 1 : alpha / rank;
  const a = file.readF32(`${prefix}a`);
  const b = inHalves(file.readF32(`${prefix}b`), linear, architecture, rank);
  for (let i = 0; i < b.length; i++) b[i]! *= scale;
  refuseNonFinite(`${prefix}a`, a);
  refuseNonFinite(`${prefix}b`, b);
  return { rank, a, b };
}

/** Refuses NaN and infinity, which would make other rows of a batch NaN, too. */
function refuseNonFinite(tensor: string, values: Float32Array): void {
  for (const value of values)
    if (!Number.isFinite(value))
      throw new UnsupportedModelError(`${tensor} holds ${value}: adapter values must be finite`);
}

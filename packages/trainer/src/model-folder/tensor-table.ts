import {
  type Architecture,
  CONVOLUTION_TENSOR,
  DELTA_TENSORS,
  deltaSizes,
  EXPERT_BIASES,
  EXPERT_MATRICES,
  EXPERT_TENSORS,
  expertDims,
  expertsIn,
  FAMILIES,
  ggufLinear,
  layerMixer,
  linearDims,
  type LinearName,
  normTensorsOf,
  parentModule,
  queryKeyNormWidth,
  ROUTER_BIAS,
  ROUTER_TENSOR,
  SINKS_TENSOR,
  storedLinears,
  valueHeads,
  type ValueHeads,
} from '@trainyard/transformer';
import type { FolderConfig } from './folder-config.ts';
import {
  type FeedForwardLayout,
  feedForwardSources,
  plainSources,
  storedLayout,
  type TensorSources,
} from './feed-forward-layouts.ts';
import { huggingFaceDims, huggingFaceName } from './tensor-names.ts';

/** A tensor of the GGUF file and its sources. */
export interface TableTensor {
  /** in the folder */
  readonly sources: TensorSources;
  /** in the GGUF file */
  readonly name: string;
  /** row-major */
  readonly dims: readonly number[];
  /** Heads whose rows change from half-rotation to interleaved order; null: the rows stay. */
  readonly interleavedHeads: number | null;
  /** Heads whose order changes from groups to tiles; null: none. */
  readonly valueHeads: ValueHeads | null;
  /** Is added to its values. */
  readonly offset: number;
  /** True if the folder has the logarithms of its values, which are negative. */
  readonly isNegatedExponential: boolean;
  /** Vectors, routers and weights of convolutions are stored in single precision, as llama.cpp requires. */
  readonly isSinglePrecision: boolean;
}

/** Constants of old releases, which are computed from the configuration. */
const IGNORED = /\.(?:attention\.masked_bias|attention\.bias|rotary_emb\.inv_freq)$/;
/** Parts of a model of Qwen3.5 next to its text: those for images, and for predicting further tokens. */
const OTHER_PARTS = /^(?:model\.visual|mtp)\./;

export const isIgnoredTensor = (source: string, { deltaNet }: Pick<Architecture, 'deltaNet'>): boolean =>
  IGNORED.test(source) || (deltaNet !== null && OTHER_PARTS.test(source));

/**
 * All tensors of a model, in the order of the file; the folder must have exactly these.
 *
 * @param isStored true for the names of the folder's tensors
 */
export function tensorTable(config: FolderConfig, isStored: (name: string) => boolean): TableTensor[] {
  const { architecture, family, isTied } = config;
  const layout = storedLayout(family.feedForwardLayouts, isStored, architecture);
  const { vocabSize, hiddenSize, numLayers } = architecture;
  const tensor = (name: string, dims: readonly number[], interleavedHeads: number | null = null): TableTensor => ({
    sources: tensorSources(architecture, layout, name, dims),
    name,
    dims,
    interleavedHeads,
    valueHeads: valueHeads(architecture, headPart(name)),
    offset: hasOffset(name) ? family.normOffset : 0,
    isNegatedExponential: isNegatedExponential(name),
    isSinglePrecision: isSinglePrecision(name, dims),
  });
  return [
    tensor('token_embd.weight', [vocabSize, hiddenSize]),
    ...Array.from({ length: numLayers }, (_, layer) =>
      blockTensors(config, layer).map(({ part, dims, heads = null }) => tensor(`blk.${layer}.${part}`, dims, heads)),
    ).flat(),
    tensor(FAMILIES[architecture.name]!.outputNorm, [hiddenSize]),
    ...(isTied ? [] : [tensor('output.weight', [vocabSize, hiddenSize])]),
  ];
}

/** transformers adds one to the weights of norms of some families, except in gated delta nets. @param name in GGUF */
export const hasOffset = (name: string): boolean =>
  name.endsWith('norm.weight') && !name.endsWith(`.${DELTA_TENSORS.norm}`);

/** @param name in GGUF */
export const isNegatedExponential = (name: string): boolean => name.endsWith(`.${DELTA_TENSORS.decay}`);

/** Name in a block, without `.weight` for those of linear layers. */
export function headPart(name: string): string {
  const [, part = ''] = /^blk\.\d+\.(.+)$/.exec(name) ?? [];
  return part === DELTA_TENSORS.convolution ? part : part.replace(/\.weight$/, '');
}

/** @param layout of feed-forwards @param name in GGUF @param dims row-major */
export function tensorSources(
  architecture: Architecture,
  layout: FeedForwardLayout | undefined,
  name: string,
  dims: readonly number[],
): TensorSources {
  const [, layer, part] = /^blk\.(\d+)\.(.+)$/.exec(name) ?? [];
  const ofFeedForward =
    layout === undefined || part === undefined
      ? null
      : feedForwardSources(architecture, layout, { layer: Number(layer), part });
  if (ofFeedForward !== null) return ofFeedForward;
  return plainSources(huggingFaceName(name, architecture), huggingFaceDims(name, dims));
}

/** @param name in GGUF */
export const isSinglePrecision = (name: string, dims: readonly number[]): boolean =>
  dims.length === 1 ||
  !name.endsWith('.weight') ||
  [ROUTER_TENSOR, CONVOLUTION_TENSOR, DELTA_TENSORS.convolution].some((part) => name.endsWith(`.${part}`));

interface BlockTensor {
  readonly part: string;
  readonly dims: readonly number[];
  /** Absent: its rows stay. */
  readonly heads?: number | undefined;
}

function blockTensors(config: FolderConfig, layer: number): BlockTensor[] {
  const { architecture, biases } = config;
  const { hiddenSize: hidden, numHeads, numKvHeads, norms } = architecture;
  const heads: Partial<Record<LinearName, number>> = architecture.hasInterleavedHeads
    ? { q: numHeads, k: numKvHeads }
    : {};
  const mixer = layerMixer(architecture, layer);
  const linears = (parents: readonly string[], hasBias: (linear: LinearName) => boolean): BlockTensor[] =>
    storedLinears(architecture, layer)
      .filter((linear) => parents.includes(parentModule(linear)))
      .flatMap((linear) => {
        const { out, in: inputs } = linearDims(architecture, linear);
        const own = { heads: heads[linear] };
        const part = ggufLinear(architecture, layer, linear);
        const bias = hasBias(linear) ? [{ part: `${part}.bias`, dims: [out], ...own }] : [];
        return [{ part: `${part}.weight`, dims: [out, inputs], ...own }, ...bias];
      });
  const names = normTensorsOf(FAMILIES[architecture.name]!);
  const norm = (place: 'before' | 'after', of: 'attention' | 'feedForward') =>
    norms[place] ? [{ part: `${names[place][of]}.weight`, dims: [hidden] }] : [];
  return [
    ...norm('before', 'attention'),
    ...linears(['self_attn', 'conv', 'linear_attn'], (linear) => (linear === 'o' ? biases.output : biases.qkv)),
    ...(architecture.hasSinks ? [{ part: SINKS_TENSOR, dims: [numHeads] }] : []),
    ...(mixer === 'convolution' ? [{ part: CONVOLUTION_TENSOR, dims: [hidden, architecture.convolution!.size] }] : []),
    ...(mixer === 'deltaNet' ? deltaTensors(architecture) : []),
    ...(architecture.queryKeyNorm === null || mixer !== 'attention'
      ? []
      : (['q', 'k'] as const).map((linear) => ({
          part: `attn_${linear}_norm.weight`,
          dims: [queryKeyNormWidth(architecture, linear)],
        }))),
    ...norm('after', 'attention'),
    ...norm('before', 'feedForward'),
    ...linears(['mlp', 'feed_forward'], () => biases.feedForward),
    ...(expertsIn(architecture, layer) === null ? [] : expertTensors(architecture)),
    ...norm('after', 'feedForward'),
  ];
}

function deltaTensors({ deltaNet }: Architecture): BlockTensor[] {
  const { numValueHeads, valueSize, convolutionSize } = deltaNet!;
  return [
    { part: DELTA_TENSORS.convolution, dims: [deltaSizes(deltaNet!).channels, convolutionSize] },
    { part: DELTA_TENSORS.step, dims: [numValueHeads] },
    { part: DELTA_TENSORS.decay, dims: [numValueHeads] },
    { part: DELTA_TENSORS.norm, dims: [valueSize] },
  ];
}

function expertTensors(architecture: Architecture): BlockTensor[] {
  const { count, hasBiases } = architecture.experts!;
  const matrices = EXPERT_MATRICES.map((matrix) => {
    const { out, in: inputs } = expertDims(architecture, matrix);
    return { part: EXPERT_TENSORS[matrix], dims: [count, out, inputs] };
  });
  const biases = EXPERT_MATRICES.map((matrix) => ({
    part: EXPERT_BIASES[matrix],
    dims: [count, expertDims(architecture, matrix).out],
  }));
  return [
    { part: ROUTER_TENSOR, dims: [count, architecture.hiddenSize] },
    ...matrices,
    ...(hasBiases ? [{ part: ROUTER_BIAS, dims: [count] }, ...biases] : []),
  ];
}

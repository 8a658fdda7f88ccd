import type { GgufValue } from '@trainyard/native';
import { DeltaStates, PagedAttention } from '@trainyard/decoder';
import { type DeltaNet, layersBetween, numberSetting } from '@trainyard/transformer';
import { shelfTokensOf } from '../runner/llama-runner.ts';
import type { Computation } from './served-file.ts';

export interface CacheLimits {
  /**
   * Tokens over all sequences. Null: as many as {@link cacheBytes} hold, or 16,384 without it. The smaller limit
   * applies.
   */
  readonly capacityTokens: number | null;
  /** Limit in bytes. Default: only the limit in tokens. */
  readonly cacheBytes?: number | null;
  readonly maxSequences: number;
}

export interface CachedModel {
  /** Metadata of the served file. */
  readonly metadata: ReadonlyMap<string, GgufValue>;
  /** True if llama.cpp keeps a state of the last token only. */
  readonly hasRecurrentState: boolean;
}

export interface CacheSize {
  readonly capacityTokens: number;
  /** Per sequence. */
  readonly contextLength: number;
  /** Maximum size; with llama.cpp including the runner's shelf, a quarter as much, unless a state is recurrent. */
  readonly sizeBytes: number;
}

/** 755 MB of the default model in single precision. */
const DEFAULT_CAPACITY_TOKENS = 16_384;
const MIN_CAPACITY_TOKENS = 256;
/** More than models have. */
const MAX_LAYERS = 4096;
/** llama.cpp rounds the cells of a cache up to a multiple of this, and the runner keeps one for itself. */
const CELL_BLOCK = 256;

/**
 * @throws {RangeError} if the bytes hold too few tokens, with the bytes needed
 */
export function cacheSize(
  served: Computation,
  { metadata, hasRecurrentState }: CachedModel,
  { capacityTokens, cacheBytes = null, maxSequences }: CacheLimits,
): CacheSize {
  const bytesPerValue = served.runner === 'llama' && served.cachePrecision === 'f16' ? 2 : 4;
  const values = cachedValues(metadata) + (served.runner === 'graphs' ? convolutionInputs(metadata) : 0);
  const bytesPerToken = values * bytesPerValue;
  const deltaNet = deltaNetOf(metadata);
  const most = served.runner === 'llama' ? shortContextCells(metadata) : Infinity;
  const sizeOf = (wanted: number): CacheSize => {
    const tokens = Math.min(wanted, most);
    const numCells =
      served.runner === 'graphs'
        ? PagedAttention.numCells({ capacityTokens: tokens, maxSequences })
        : CELL_BLOCK * Math.ceil(tokens / CELL_BLOCK);
    const contextLength = served.runner === 'graphs' ? tokens : numCells - 1;
    const numShelved = served.runner === 'graphs' ? 0 : shelfTokensOf(numCells, hasRecurrentState);
    const stateBytes = served.runner === 'graphs' ? DeltaStates.bytesFor({ deltaNet }, tokens, maxSequences) : 0;
    return { capacityTokens: tokens, contextLength, sizeBytes: (numCells + numShelved) * bytesPerToken + stateBytes };
  };
  if (cacheBytes === null) return sizeOf(capacityTokens ?? DEFAULT_CAPACITY_TOKENS);
  const fits = (tokens: number) => sizeOf(tokens).sizeBytes <= cacheBytes;
  if (!fits(MIN_CAPACITY_TOKENS)) {
    const megabytes = (bytes: number) => Math.ceil(bytes / 1e6);
    throw new RangeError(
      `a cache of ${Math.floor(cacheBytes / 1e6)} MB holds fewer than ${MIN_CAPACITY_TOKENS} tokens of this model with ${maxSequences} sequences: ` +
        `it needs ${megabytes(sizeOf(MIN_CAPACITY_TOKENS).sizeBytes)} MB (raise --cache-megabytes, or lower --max-sequences)`,
    );
  }
  // The limit includes the runner's own cells.
  let tokens = Math.min(capacityTokens ?? Infinity, Math.floor(cacheBytes / Math.max(1, bytesPerToken)));
  while (!fits(tokens)) tokens = Math.max(MIN_CAPACITY_TOKENS, tokens - CELL_BLOCK);
  return sizeOf(tokens);
}

/**
 * Cells up to which llama.cpp uses the rope factors of a Phi-3 model for short contexts, as training does. It chooses
 * by the size of the cache.
 */
function shortContextCells(metadata: ReadonlyMap<string, GgufValue>): number {
  if (metadata.get('general.architecture') !== 'phi3' || !metadata.has('phi3.rope.scaling.attn_factor'))
    return Infinity;
  return numberSetting(metadata.get('phi3.rope.scaling.original_context_length')) ?? Infinity;
}

/** Inputs of convolutions per token, which our decoder keeps with keys and values; llama.cpp keeps the last of a sequence. */
function convolutionInputs(metadata: ReadonlyMap<string, GgufValue>): number {
  const architecture = String(metadata.get('general.architecture'));
  const byLayer = metadata.get(`${architecture}.attention.head_count_kv`);
  if (!metadata.has(`${architecture}.shortconv.l_cache`) || !Array.isArray(byLayer)) return 0;
  const numLayers = byLayer.filter((heads) => Number(heads) === 0).length;
  return numLayers * (numberSetting(metadata.get(`${architecture}.embedding_length`)) ?? 0);
}

/** Sizes of gated delta nets, whose states our decoder keeps; llama.cpp keeps one state per sequence. */
function deltaNetOf(metadata: ReadonlyMap<string, GgufValue>): DeltaNet | null {
  const architecture = String(metadata.get('general.architecture'));
  const size = (key: string) => Number(metadata.get(`${architecture}.${key}`) ?? 0);
  const numValueHeads = size('ssm.time_step_rank');
  const layers = layersWithoutAttention(metadata, architecture);
  if (layers.length === 0 || numValueHeads === 0) return null;
  return {
    numKeyHeads: size('ssm.group_count'),
    numValueHeads,
    keySize: size('ssm.state_size'),
    valueSize: size('ssm.inner_size') / numValueHeads,
    convolutionSize: size('ssm.conv_kernel'),
    layers,
  };
}

/** Those of a model that lists them, or in which the last of each so many layers has attention. */
function layersWithoutAttention(metadata: ReadonlyMap<string, GgufValue>, architecture: string): number[] {
  const stated = metadata.get(`${architecture}.attention.recurrent_layers`);
  if (Array.isArray(stated)) return [...stated.keys()].filter((layer) => stated[layer] === true);
  const interval = metadata.get(`${architecture}.full_attention_interval`);
  const numLayers = Number(metadata.get(`${architecture}.block_count`) ?? 0);
  // A damaged header must not make a list of any length.
  return interval === undefined || numLayers > MAX_LAYERS ? [] : layersBetween(Number(interval), numLayers);
}

/** Number of key and value numbers per token over all layers; 0 for a model without attention sizes. */
export function cachedValues(metadata: ReadonlyMap<string, GgufValue>): number {
  const architecture = String(metadata.get('general.architecture'));
  const number = (key: string): number | null => numberSetting(metadata.get(`${architecture}.${key}`));
  const numHeads = number('attention.head_count') ?? 1;
  const byLayer = metadata.get(`${architecture}.attention.head_count_kv`);
  const numCachedHeads = Array.isArray(byLayer)
    ? byLayer.reduce<number>((sum, heads) => sum + Number(heads), 0)
    : ((number('block_count') ?? 0) - layersWithoutAttention(metadata, architecture).length) *
      (number('attention.head_count_kv') ?? numHeads);
  const headSize = (number('embedding_length') ?? 0) / numHeads;
  const [keySize, valueSize] = [number('attention.key_length'), number('attention.value_length')];
  return numCachedHeads * ((keySize ?? headSize) + (valueSize ?? headSize));
}

import { ALL_LINEAR_NAMES, type LinearName, type LoraConfig, type ModulePattern } from './lora-config.ts';

/** Adapter of one linear layer of one block; it adds `scale · (x · aᵀ) · bᵀ`. */
export interface ModuleShape {
  readonly rank: number;
  readonly alpha: number;
  /** alpha / rank, or alpha / √rank if rank-stabilised. */
  readonly scale: number;
}

/** Paths in a block, with the names of transformers and PEFT. */
const PATHS: Readonly<Record<LinearName, string>> = {
  q: 'self_attn.q_proj',
  k: 'self_attn.k_proj',
  v: 'self_attn.v_proj',
  qkv: 'self_attn.qkv_proj',
  convIn: 'conv.in_proj',
  deltaQkv: 'linear_attn.in_proj_qkv',
  deltaZ: 'linear_attn.in_proj_z',
  deltaB: 'linear_attn.in_proj_b',
  deltaA: 'linear_attn.in_proj_a',
  o: 'self_attn.o_proj',
  out: 'self_attn.out_proj',
  convOut: 'conv.out_proj',
  deltaOut: 'linear_attn.out_proj',
  gate: 'mlp.gate_proj',
  up: 'mlp.up_proj',
  gateUp: 'mlp.gate_up_proj',
  down: 'mlp.down_proj',
  w1: 'feed_forward.w1',
  w3: 'feed_forward.w3',
  w2: 'feed_forward.w2',
};

/** Format: `layers.3.self_attn.q_proj`. */
export const modulePath = (layer: number, linear: LinearName): string => `layers.${layer}.${PATHS[linear]}`;

/** Format: `q_proj`, as in PEFT's `target_modules`. Linear layers of different parents may share it (`out_proj`). */
export const targetModule = (linear: LinearName): string => PATHS[linear].split('.')[1]!;

/** Names of linear layers as in PEFT's `target_modules`, each once. */
export const targetModules = (linears: readonly LinearName[]): string[] => [...new Set(linears.map(targetModule))];

/** A module's part of a block's path: `self_attn`, `conv`, `linear_attn`, `mlp` or `feed_forward`. */
export const parentModule = (linear: LinearName): string => PATHS[linear].split('.')[0]!;

export function scaleOf(rank: number, alpha: number, isRankStabilised = false): number {
  return alpha / (isRankStabilised ? Math.sqrt(rank) : rank);
}

export function moduleShape(lora: LoraConfig, layer: number, linear: LinearName): ModuleShape {
  const keys = [modulePath(layer, linear), targetModule(linear)];
  const own = (pattern: ModulePattern | undefined): number | undefined =>
    pattern === undefined ? undefined : keys.map((key) => pattern[key]).find((value) => value !== undefined);
  const rank = own(lora.rankPattern) ?? lora.rank;
  const alpha = own(lora.alphaPattern) ?? lora.alpha;
  return { rank, alpha, scale: scaleOf(rank, alpha, lora.isRankStabilised) };
}

export interface PatternEntry {
  /** Null: all blocks. */
  readonly layer: number | null;
  readonly linear: LinearName;
  readonly value: number;
}

/** Pattern in its one order: paths before names, each in the order of a model's layers. */
export function modulePattern(entries: readonly PatternEntry[]): ModulePattern {
  const placeOf = ({ layer, linear }: PatternEntry): number =>
    (layer === null ? 1e9 : layer * ALL_LINEAR_NAMES.length) + ALL_LINEAR_NAMES.indexOf(linear);
  const sorted = entries.toSorted((a, b) => placeOf(a) - placeOf(b));
  const keyOf = ({ layer, linear }: PatternEntry) =>
    layer === null ? targetModule(linear) : modulePath(layer, linear);
  return Object.fromEntries(sorted.map((entry) => [keyOf(entry), entry.value]));
}

/** Scale of modules without a rank or alpha of their own. */
export const baseScale = ({ rank, alpha, isRankStabilised }: LoraConfig): number =>
  scaleOf(rank, alpha, isRankStabilised);

/**
 * True if every module has the rank, and the scale alpha / rank. Formats and servers that know one rank and one
 * alpha can express it.
 */
export function isUniform(lora: Partial<LoraConfig>): boolean {
  const { isRankStabilised = false, rankPattern = {}, alphaPattern = {} } = lora;
  return !isRankStabilised && Object.keys(rankPattern).length === 0 && Object.keys(alphaPattern).length === 0;
}

/** Every shape that modules of a linear layer may have, over blocks of any number. */
export function shapesOf(lora: LoraConfig, linear: LinearName): ModuleShape[] {
  const paths = [lora.rankPattern, lora.alphaPattern].flatMap((pattern) => Object.keys(pattern ?? {}));
  const layers = paths.flatMap((key) => {
    const layer = Number(/^layers\.(\d+)\./.exec(key)?.[1]);
    return key === modulePath(layer, linear) ? [layer] : [];
  });
  // No path has this block, so it shows the shape of all others.
  return [-1, ...new Set(layers)].map((layer) => moduleShape(lora, layer, linear));
}

/**
 * Rank of a linear layer in graphs, which all blocks share: the largest of its modules. Modules of a lower rank
 * are padded with zeros.
 */
export const graphRank = (lora: LoraConfig, linear: LinearName): number =>
  Math.max(...shapesOf(lora, linear).map(({ rank }) => rank));

/** Largest rank of an adapter's modules. */
export const largestRank = (lora: LoraConfig): number =>
  Math.max(...lora.targets.map((linear) => graphRank(lora, linear)));

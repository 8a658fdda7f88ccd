/**
 * Linear layers that can have an adapter. A fused layer (Phi-3) has the rows of several: `qkv` those of q, k and v,
 * `gateUp` those of gate and up. LFM2 has `out` for o, `w1`, `w3` and `w2` for gate, up and down, and in layers with a
 * convolution `convIn` and `convOut`. Layers with a gated delta net have `deltaQkv` … `deltaOut`.
 */
export type LinearName =
  | 'q'
  | 'k'
  | 'v'
  | 'qkv'
  | 'convIn'
  | 'deltaQkv'
  | 'deltaZ'
  | 'deltaB'
  | 'deltaA'
  | 'o'
  | 'out'
  | 'convOut'
  | 'deltaOut'
  | 'gate'
  | 'up'
  | 'gateUp'
  | 'down'
  | 'w1'
  | 'w3'
  | 'w2';

/** Those of a block, in its order. */
export const LINEAR_NAMES: readonly LinearName[] = ['q', 'k', 'v', 'o', 'gate', 'up', 'down'];
/** Those of a block with fused layers. */
export const FUSED_LINEAR_NAMES: readonly LinearName[] = ['qkv', 'o', 'gateUp', 'down'];
/** Those of the blocks of a model with convolutions: some have q, k, v and out, the others convIn and convOut. */
export const CONVOLUTION_LINEAR_NAMES: readonly LinearName[] = [
  'q',
  'k',
  'v',
  'convIn',
  'out',
  'convOut',
  'w1',
  'w3',
  'w2',
];
/** Those of the blocks of a model with gated delta nets: some have q, k, v and o, the others those of the delta net. */
export const DELTA_LINEAR_NAMES: readonly LinearName[] = [
  'q',
  'k',
  'v',
  'deltaQkv',
  'deltaZ',
  'deltaB',
  'deltaA',
  'o',
  'deltaOut',
  'gate',
  'up',
  'down',
];
/** Those of blocks of any family. */
export const ALL_LINEAR_NAMES: readonly LinearName[] = [
  'q',
  'k',
  'v',
  'qkv',
  'convIn',
  'deltaQkv',
  'deltaZ',
  'deltaB',
  'deltaA',
  'o',
  'out',
  'convOut',
  'deltaOut',
  'gate',
  'up',
  'gateUp',
  'down',
  'w1',
  'w3',
  'w2',
];

/** Shape of an adapter, with PEFT's meaning of each member. */
export interface LoraConfig {
  /** Inner dimension of modules without a rank of their own. */
  readonly rank: number;
  /** Alpha of modules without one of their own. A module's output is multiplied by alpha / rank. */
  readonly alpha: number;
  /** Linear layers with an adapter, in every block. */
  readonly targets: readonly LinearName[];
  /** Seed of the initial `a` matrices. */
  readonly initSeed: number;
  /** True multiplies by alpha / √rank instead (rsLoRA, arXiv:2312.03732). Default false. */
  readonly isRankStabilised?: boolean;
  /** Default: none. */
  readonly rankPattern?: ModulePattern;
  /** Default: none. */
  readonly alphaPattern?: ModulePattern;
}

/**
 * Values by module. Keys are a layer's name (`q_proj`) or its path in one block (`layers.3.self_attn.q_proj`); the
 * path wins. Paths come first, as PEFT takes the first key that matches.
 */
export type ModulePattern = Readonly<Record<string, number>>;

export const DEFAULT_LORA_CONFIG: LoraConfig = { rank: 8, alpha: 16, targets: LINEAR_NAMES, initSeed: 0 };

/** Half of an adapter: `y += scale · (x · aᵀ) · bᵀ`. */
export type LoraHalf = 'a' | 'b';

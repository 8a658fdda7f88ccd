import {
  type Architecture,
  expertsIn,
  deltaSizes,
  layerMixer,
  type LayerMixer,
  linearDims,
  queryWidth,
  sharedFloats,
  type Workspace,
} from '@trainyard/transformer';

const OF_ATTENTION = ['q', 'k', 'v', 'o'] as const;
const OF_CONVOLUTION = ['bcx', 'u', 'o'] as const;
const OF_DELTA_NET = ['bcx', 'deltaO'] as const;
const OF_GATE = ['outputGate'] as const;
const OF_OUTPUT = ['x2', 'gate', 'up'] as const;
type Intermediate = (
  | typeof OF_ATTENTION
  | typeof OF_CONVOLUTION
  | typeof OF_DELTA_NET
  | typeof OF_GATE
  | typeof OF_OUTPUT
)[number];
const OF_MIXERS: Readonly<Record<LayerMixer, readonly Intermediate[]>> = {
  attention: OF_ATTENTION,
  convolution: OF_CONVOLUTION,
  deltaNet: OF_DELTA_NET,
};
/** Higher lanes read them. */
const SHARED: readonly Intermediate[] = ['k', 'v', 'u'];

/**
 * q [T, heads·D], k and v [T, kvHeads·D], o [T, heads·D], x2 [T, H], gate and up [T, F]; in a block with experts
 * [slots, F of one expert], in the order of experts. A block with a convolution has bcx [T, 3H] and u [T, H], and no
 * q, k and v; one with a gated delta net has its products as bcx, and no u; others are empty there. Its o is
 * [T, values], in a place of its own: lanes are at different layers, and rows of another width would overlap.
 */
export type BlockIntermediates = Readonly<Record<Exclude<Intermediate, 'deltaO'>, Float32Array>> & {
  /** Null: the block is dense. */
  readonly routing: BlockRouting | null;
};

/** Experts of a block's tokens. */
export interface BlockRouting {
  /** [T, E] */
  readonly scores: Float32Array;
  /** [T, K], of every layer: backward uses the choice of forward. -1: not computed */
  readonly chosen: Int32Array;
  /** [T, K] */
  readonly shares: Float32Array;
}

/** Data of experts, shared by all layers. A slot is a token with one of its experts. */
export interface ExpertBuffers {
  /** [T, H], normalised */
  readonly h: Float32Array;
  /** [slots, H], or gradients of inputs */
  readonly outputs: Float32Array;
  /** [slots]; null if no backward follows */
  readonly shareGradients: Float32Array | null;
}

/**
 * Scratch of backward, shared by all layers. dy: ∂loss/∂(layer output); residual: the part of ∂x that bypasses
 * attention.
 */
export interface GradientBuffers extends Readonly<Record<'dy' | 'residual' | 'dO' | 'dq', Float32Array>> {
  /** Summands for even and odd layers, by lane. A lane may be one layer ahead of the readers of its sums. */
  readonly keys: readonly [even: readonly KeyGradients[], odd: readonly KeyGradients[]];
  /** [T, heads·D]; null without an output gate. */
  readonly outputGate: Float32Array | null;
  /** Gradients of the outputs [T, values] and products [T, width] of a gated delta net; null without one. */
  readonly deltaOutputs: Float32Array | null;
  readonly deltaProducts: Float32Array | null;
  /** [T, H] gradients of sums of convolutions in even and odd layers; null without convolutions. */
  readonly convolutions: readonly [even: Float32Array, odd: Float32Array] | null;
}

/** [T, kvHeads·D] each */
export type KeyGradients = Readonly<Record<'dk' | 'dv', Float32Array>>;

/**
 * Buffers of one pass over a row of T tokens. For backward, every layer's input is kept, and the intermediates
 * of as many layers as the budget allows, counted from the last because backward frees those first. The others
 * share one set (data that other lanes read: two, for even and odd layers) and are recomputed.
 */
export class Activations {
  readonly #workspace: Workspace;
  readonly #numTokens: number;
  readonly #hiddenSize: number;
  readonly #architecture: Architecture;
  readonly #widths: Readonly<Record<Intermediate, number>>;
  readonly #keepsInputs: boolean;
  readonly #firstKeptLayer: number;

  /** @param budgetBytes for layer inputs and intermediates, at least one layer's; null if no backward follows */
  constructor(workspace: Workspace, architecture: Architecture, numTokens: number, budgetBytes: number | null) {
    const { hiddenSize, numLayers } = architecture;
    const wide = feedForwardWidth(architecture);
    this.#architecture = architecture;
    const [q, kv] = [queryWidth(architecture), linearDims(architecture, 'k').out];
    const deltas = architecture.deltaNet === null ? null : deltaSizes(architecture.deltaNet);
    this.#workspace = workspace;
    this.#numTokens = numTokens;
    this.#hiddenSize = hiddenSize;
    this.#widths = {
      q,
      k: kv,
      v: kv,
      outputGate: q,
      bcx: deltas?.width ?? 3 * hiddenSize,
      u: hiddenSize,
      o: q,
      deltaO: deltas?.values ?? 0,
      x2: hiddenSize,
      gate: wide,
      up: wide,
    };
    this.#keepsInputs = budgetBytes !== null;
    const inputBytes = 4 * numTokens * hiddenSize;
    const bytesOf = (names: readonly Intermediate[]) =>
      4 * numTokens * names.reduce((sum, name) => sum + this.#widths[name], 0);
    const byLayer = Array.from({ length: numLayers }, (_, layer) => this.#namesIn(layer));
    const firstKept = (bytes: number) => {
      let [first, used] = [numLayers, 0];
      while (first > 0 && (used += bytesOf(byLayer[first - 1]!)) <= bytes) first--;
      return first;
    };
    const freeBytes = budgetBytes === null ? 0 : budgetBytes - (numLayers + 1) * inputBytes;
    const all = [...new Set(byLayer.flat())];
    const sharedBytes = bytesOf(all) + bytesOf(all.filter((name) => SHARED.includes(name)));
    this.#firstKeptLayer = firstKept(freeBytes) === 0 ? 0 : firstKept(freeBytes - sharedBytes);
  }

  /** Backward still finds the layer's intermediates. */
  isKept(layer: number): boolean {
    return layer >= this.#firstKeptLayer;
  }

  /** [T, H]; after the last layer the model's final hidden state. */
  layerInput(layer: number): Float32Array {
    return this.#workspace.take(
      this.#keepsInputs ? `x.${layer}` : `x.${layer % 2}`,
      this.#numTokens * this.#hiddenSize,
    );
  }

  intermediates(layer: number): BlockIntermediates {
    const place = (name: Intermediate) => {
      if (this.isKept(layer)) return `${name}.${layer}`;
      // The next layer must not overwrite data that slower lanes still read.
      return SHARED.includes(name) ? `${name}.${layer % 2 === 0 ? 'even' : 'odd'}` : name;
    };
    const entries = this.#namesIn(layer).map((name) => [
      name,
      this.#workspace.take(place(name), this.#numTokens * this.#widths[name]),
    ]);
    const { deltaO, ...own } = Object.fromEntries(entries) as Partial<Record<Intermediate, Float32Array>>;
    return {
      ...NONE,
      ...own,
      ...(deltaO !== undefined && { o: deltaO }),
      routing: this.#routing(layer),
    };
  }

  #namesIn(layer: number): readonly Intermediate[] {
    const mixer = layerMixer(this.#architecture, layer);
    const isGated = this.#architecture.hasOutputGate && mixer === 'attention';
    return [...OF_MIXERS[mixer], ...(isGated ? OF_GATE : []), ...OF_OUTPUT];
  }

  #routing(layer: number): BlockRouting | null {
    const experts = expertsIn(this.#architecture, layer);
    if (experts === null) return null;
    const own = this.isKept(layer) ? `.${layer}` : '';
    const take = (name: string, width: number) => this.#workspace.take(name, this.#numTokens * width);
    const { buffer, byteOffset, length } = take(`chosen.${layer}`, experts.used);
    return {
      scores: take(`scores${own}`, experts.count),
      chosen: new Int32Array(buffer, byteOffset, length),
      shares: take(`shares${own}`, experts.used),
    };
  }

  /** Null: no layer has experts. */
  experts(): ExpertBuffers | null {
    const { experts } = this.#architecture;
    if (experts === null) return null;
    const numSlots = this.#numTokens * experts.used;
    return {
      h: this.#workspace.take('experts.h', this.#numTokens * this.#hiddenSize),
      outputs: this.#workspace.take('experts.outputs', numSlots * this.#hiddenSize),
      shareGradients: this.#keepsInputs ? this.#workspace.take('experts.shareGradients', numSlots) : null,
    };
  }

  gradients(numLanes: number): GradientBuffers {
    const take = (name: string, width: number) => this.#workspace.take(name, this.#numTokens * width);
    const { q, k, deltaO, bcx } = this.#widths;
    const { hasOutputGate, deltaNet } = this.#architecture;
    const keys = (parity: string) =>
      Array.from({ length: numLanes }, (_, lane) => ({
        dk: take(`dk.${parity}.${lane}`, k),
        dv: take(`dv.${parity}.${lane}`, k),
      }));
    return {
      dy: take('dy', this.#hiddenSize),
      residual: take('residual', this.#hiddenSize),
      dO: take('dO', q),
      dq: take('dq', q),
      outputGate: hasOutputGate ? take('dOutputGate', q) : null,
      deltaOutputs: deltaNet === null ? null : take('dDeltaO', deltaO),
      deltaProducts: deltaNet === null ? null : take('dDelta', bcx),
      keys: [keys('even'), keys('odd')],
      convolutions:
        this.#architecture.convolution === null
          ? null
          : [take('convolution.even', this.#hiddenSize), take('convolution.odd', this.#hiddenSize)],
    };
  }
}

const EMPTY = sharedFloats(0);
const NONE = {
  q: EMPTY,
  k: EMPTY,
  v: EMPTY,
  outputGate: EMPTY,
  bcx: EMPTY,
  u: EMPTY,
  o: EMPTY,
  x2: EMPTY,
  gate: EMPTY,
  up: EMPTY,
};

/** Largest width of gate and up per token. */
function feedForwardWidth({ experts, feedForwardSize }: Architecture): number {
  if (experts === null) return feedForwardSize;
  const ofExperts = experts.used * experts.feedForwardSize;
  return experts.denseLayers.length === 0 ? ofExperts : Math.max(ofExperts, feedForwardSize);
}

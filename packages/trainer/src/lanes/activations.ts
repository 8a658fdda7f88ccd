import { type Architecture, expertsIn, linearDims, type Workspace } from '@trainyard/transformer';

const INTERMEDIATES = ['q', 'k', 'v', 'o', 'x2', 'gate', 'up'] as const;

/**
 * q [T, heads·D], k and v [T, kvHeads·D], o [T, heads·D], x2 [T, H], gate and up [T, F]; in a block with experts
 * [slots, F of one expert], in the order of experts.
 */
export type BlockIntermediates = Readonly<Record<(typeof INTERMEDIATES)[number], Float32Array>> & {
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
}

/** [T, kvHeads·D] each */
export type KeyGradients = Readonly<Record<'dk' | 'dv', Float32Array>>;

/**
 * Buffers of one pass over a row of T tokens. For backward, every layer's input is kept, and the intermediates
 * of as many layers as the budget allows, counted from the last because backward frees those first. The others
 * share one set (keys and values: two, for even and odd layers) and are recomputed.
 */
export class Activations {
  readonly #workspace: Workspace;
  readonly #numTokens: number;
  readonly #hiddenSize: number;
  readonly #architecture: Architecture;
  readonly #widths: Readonly<Record<(typeof INTERMEDIATES)[number], number>>;
  readonly #keepsInputs: boolean;
  readonly #firstKeptLayer: number;

  /** @param budgetBytes for layer inputs and intermediates, at least one layer's; null if no backward follows */
  constructor(workspace: Workspace, architecture: Architecture, numTokens: number, budgetBytes: number | null) {
    const { hiddenSize, numLayers } = architecture;
    const wide = feedForwardWidth(architecture);
    this.#architecture = architecture;
    const [q, kv] = [linearDims(architecture, 'q').out, linearDims(architecture, 'k').out];
    this.#workspace = workspace;
    this.#numTokens = numTokens;
    this.#hiddenSize = hiddenSize;
    this.#widths = { q, k: kv, v: kv, o: q, x2: hiddenSize, gate: wide, up: wide };
    this.#keepsInputs = budgetBytes !== null;
    const inputBytes = 4 * numTokens * hiddenSize;
    const intermediateBytes = 4 * numTokens * INTERMEDIATES.reduce((sum, name) => sum + this.#widths[name], 0);
    const freeBytes = budgetBytes === null ? 0 : budgetBytes - (numLayers + 1) * inputBytes;
    const fitting = (bytes: number) =>
      Math.min(numLayers, Math.max(0, Math.floor(bytes / Math.max(1, intermediateBytes))));
    // Keys and values twice.
    const sharedBytes = intermediateBytes + 8 * numTokens * kv;
    const numKeptLayers = fitting(freeBytes) === numLayers ? numLayers : fitting(freeBytes - sharedBytes);
    this.#firstKeptLayer = numLayers - numKeptLayers;
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
    const place = (name: (typeof INTERMEDIATES)[number]) => {
      if (this.isKept(layer)) return `${name}.${layer}`;
      // The next layer must not overwrite data that slower lanes still read.
      return name === 'k' || name === 'v' ? `${name}.${layer % 2 === 0 ? 'even' : 'odd'}` : name;
    };
    const entries = INTERMEDIATES.map((name) => [
      name,
      this.#workspace.take(place(name), this.#numTokens * this.#widths[name]),
    ]);
    return {
      ...(Object.fromEntries(entries) as Record<(typeof INTERMEDIATES)[number], Float32Array>),
      routing: this.#routing(layer),
    };
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
    const { q, k } = this.#widths;
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
      keys: [keys('even'), keys('odd')],
    };
  }
}

/** Largest width of gate and up per token. */
function feedForwardWidth({ experts, feedForwardSize, numLayers }: Architecture): number {
  if (experts === null) return feedForwardSize;
  const ofExperts = experts.used * experts.feedForwardSize;
  if (experts.denseLayers.length === 0) return ofExperts;
  return experts.denseLayers.length === numLayers ? feedForwardSize : Math.max(ofExperts, feedForwardSize);
}

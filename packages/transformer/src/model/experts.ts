/** Experts of a model: small feed-forwards, some of which compute each token, chosen by a router per layer. */
export interface Experts {
  readonly count: number;
  /** Experts that compute a token. */
  readonly used: number;
  /** Width of one expert. */
  readonly feedForwardSize: number;
  /** True: the shares of a token's experts sum to 1; false: they are probabilities among all experts. */
  readonly normalisesShares: boolean;
  /** True if each token also takes a feed-forward that is always computed, as wide as that of dense layers. */
  readonly hasSharedFeedForward: boolean;
  /** True if router and matrices have biases. */
  readonly hasBiases: boolean;
  /** Layers with one feed-forward instead, ascending. */
  readonly denseLayers: readonly number[];
}

/** Matrices of an expert; names are those of a dense feed-forward. */
export type ExpertMatrix = 'gate' | 'up' | 'down';
export const EXPERT_MATRICES: readonly ExpertMatrix[] = ['gate', 'up', 'down'];

/** GGUF tensors of a block: [H, E], and of all experts [in, out, E]. */
export const ROUTER_TENSOR = 'ffn_gate_inp.weight';
export const EXPERT_TENSORS: Readonly<Record<ExpertMatrix, string>> = {
  gate: 'ffn_gate_exps.weight',
  up: 'ffn_up_exps.weight',
  down: 'ffn_down_exps.weight',
};

/** Their biases, if there are any: [E], and [out, E]. */
export const ROUTER_BIAS = 'ffn_gate_inp.bias';
export const EXPERT_BIASES: Readonly<Record<ExpertMatrix, string>> = {
  gate: 'ffn_gate_exps.bias',
  up: 'ffn_up_exps.bias',
  down: 'ffn_down_exps.bias',
};

interface MaybeExperts {
  readonly experts: Experts | null;
}

/** Experts of a layer; null: it is dense. */
export const expertsIn = ({ experts }: MaybeExperts, layer: number): Experts | null =>
  experts === null || experts.denseLayers.includes(layer) ? null : experts;

/** Sizes of one expert's matrix. */
export const expertDims = (
  { hiddenSize, experts }: MaybeExperts & { readonly hiddenSize: number },
  matrix: ExpertMatrix,
): { readonly in: number; readonly out: number } => {
  const wide = experts!.feedForwardSize;
  return matrix === 'down' ? { in: wide, out: hiddenSize } : { in: hiddenSize, out: wide };
};

/** Weights of one expert. */
export const expertParameters = (sizes: Parameters<typeof expertDims>[0]): number =>
  EXPERT_MATRICES.map((matrix) => expertDims(sizes, matrix)).reduce((sum, dims) => sum + dims.in * dims.out, 0);

/** Weights of all routers, and biases of routers and experts: they are in memory even if the experts are not. */
export function routingParameters(
  architecture: MaybeExperts & { readonly hiddenSize: number; readonly numLayers: number },
): number {
  const { hiddenSize, numLayers, experts } = architecture;
  if (experts === null) return 0;
  const outputs = EXPERT_MATRICES.reduce((sum, matrix) => sum + expertDims(architecture, matrix).out, 0);
  return (
    (numLayers - experts.denseLayers.length) * experts.count * (hiddenSize + (experts.hasBiases ? 1 + outputs : 0))
  );
}

/**
 * Chooses the experts of tokens: those of the highest scores; of equal scores the first. They are in ascending order,
 * so that sums over them do not depend on their scores.
 *
 * @param scores [T, E] of the router @param chosen [T, K], written
 */
export function chooseExperts(scores: Float32Array, { count, used }: Experts, chosen: Int32Array): void {
  const isChosen = new Uint8Array(count);
  for (let token = 0; token * used < chosen.length; token++) {
    const from = token * count;
    isChosen.fill(0);
    for (let i = 0; i < used; i++) {
      let best = -1;
      for (let expert = 0; expert < count; expert++)
        if (isChosen[expert] === 0 && (best === -1 || scores[from + expert]! > scores[from + best]!)) best = expert;
      isChosen[best] = 1;
    }
    let at = token * used;
    for (let expert = 0; expert < count; expert++) if (isChosen[expert] === 1) chosen[at++] = expert;
  }
}

/**
 * Computes the shares of chosen experts in their token's output: a softmax of scores, over the chosen ones or over all.
 *
 * @param scores [T, E] @param chosen [T, K] @param shares [T, K], written
 */
export function expertShares(
  scores: Float32Array,
  { count, used, normalisesShares }: Experts,
  chosen: Int32Array,
  shares: Float32Array,
): void {
  for (let token = 0; token * used < chosen.length; token++) {
    const row = scores.subarray(token * count, (token + 1) * count);
    const own = chosen.subarray(token * used, (token + 1) * used);
    const { top, total } = partition(row, normalisesShares ? own : null);
    for (let i = 0; i < used; i++) shares[token * used + i] = Math.exp(row[own[i]!]! - top) / total;
  }
}

/**
 * Gradient of scores, given that of shares. The choice has none.
 *
 * @param shareGradient [T, K] @param into [T, E], written
 */
export function scoreGradient(
  {
    scores,
    chosen,
    shares,
  }: { readonly scores: Float32Array; readonly chosen: Int32Array; readonly shares: Float32Array },
  { count, used, normalisesShares }: Experts,
  shareGradient: Float32Array,
  into: Float32Array,
): void {
  for (let token = 0; token * used < chosen.length; token++) {
    const [first, from] = [token * used, token * count];
    let mean = 0;
    for (let i = first; i < first + used; i++) mean += shares[i]! * shareGradient[i]!;
    const row = into.subarray(from, from + count).fill(0);
    if (!normalisesShares) {
      const own = scores.subarray(from, from + count);
      const { top, total } = partition(own, null);
      for (let expert = 0; expert < count; expert++) row[expert] = (-mean * Math.exp(own[expert]! - top)) / total;
    }
    for (let i = first; i < first + used; i++)
      row[chosen[i]!]! += shares[i]! * (shareGradient[i]! - (normalisesShares ? mean : 0));
  }
}

/** @param some null: all */
function partition(scores: Float32Array, some: Int32Array | null): { readonly top: number; readonly total: number } {
  let [top, total] = [-Infinity, 0];
  const numScores = some === null ? scores.length : some.length;
  const scoreAt = (i: number): number => scores[some === null ? i : some[i]!]!;
  for (let i = 0; i < numScores; i++) top = Math.max(top, scoreAt(i));
  for (let i = 0; i < numScores; i++) total += Math.exp(scoreAt(i) - top);
  return { top, total };
}

/**
 * Computes y = x + scale · Σ share · output of the token's experts, in the order of experts.
 *
 * @param of `x` and `y` [T, H], `outputs` [slots, H], `shares` [T, K] @param range of tokens
 */
export function addExpertOutputs(
  of: Readonly<Record<'x' | 'y' | 'outputs' | 'shares', Float32Array>>,
  { slotOf }: ExpertSlots,
  range: { readonly start: number; readonly end: number },
  { used, width, scale }: { readonly used: number; readonly width: number; readonly scale: number },
): void {
  const { x, y, outputs, shares } = of;
  const sum = new Float64Array(width);
  for (let token = range.start; token < range.end; token++) {
    sum.fill(0);
    for (let i = token * used; i < (token + 1) * used; i++) {
      const [from, share] = [slotOf[i]! * width, scale * shares[i]!];
      for (let j = 0; j < width; j++) sum[j]! += share * outputs[from + j]!;
    }
    for (let j = 0, at = token * width; j < width; j++, at++) y[at] = x[at]! + sum[j]!;
  }
}

/** Pairs of a token and one of its experts (slots), in the order of experts. */
export interface ExpertSlots {
  /** [E + 1] first slot of each expert, then the number of slots */
  readonly starts: Int32Array;
  /** [slots] ascending per expert */
  readonly tokens: Int32Array;
  /** [T, K] slot of each choice; -1 for tokens without experts */
  readonly slotOf: Int32Array;
}

/** Groups tokens by expert. @param chosen [T, K]; -1 for tokens that take no part */
export function slotsByExpert(chosen: Int32Array, { count, used }: Experts): ExpertSlots {
  const starts = new Int32Array(count + 1);
  for (const expert of chosen) if (expert >= 0) starts[expert + 1]!++;
  for (let expert = 0; expert < count; expert++) starts[expert + 1]! += starts[expert]!;
  const next = starts.slice();
  const tokens = new Int32Array(starts[count]!);
  const slotOf = chosen.map((expert, i) => {
    if (expert < 0) return -1;
    const slot = next[expert]!++;
    tokens[slot] = Math.floor(i / used);
    return slot;
  });
  return { starts, tokens, slotOf };
}

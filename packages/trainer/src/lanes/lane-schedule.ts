import type { GraphName } from './block-sessions.ts';

/** One layer's operation. In blocks with experts those around them take the place of the output's. */
export interface TokenOperation {
  readonly kind:
    | Extract<
        GraphName,
        'attentionInput' | 'output' | 'savingOutput' | 'recomputingOutput' | 'outputBackward' | 'attentionInputBackward'
      >
    | 'routed'
    | 'recomputingRouted'
    | 'combined'
    | 'routedBackward';
  readonly layer: number;
}

export type ExpertOperation = Extract<GraphName, 'expert' | 'savingExpert' | 'recomputingExpert' | 'expertBackward'>;

/** Layers of a model in a pass. */
export interface PassLayers {
  readonly numLayers: number;
  /** Backward finds the layer's intermediates. */
  readonly isKept: (layer: number) => boolean;
  readonly hasExperts: (layer: number) => boolean;
  /** In the place of attention, a lane computes some heads for the tokens of all lanes. */
  readonly hasStates: (layer: number) => boolean;
}

/** The lower lanes (with earlier tokens) or higher lanes have finished their step of that index. */
export interface LaneWait {
  readonly lanes: 'lower' | 'higher';
  readonly step: number;
}

/** Buffers of streamed weights, used in turns. */
export type WeightBuffer = 0 | 1;

interface TokenStep {
  readonly parts: 'tokens' | 'sourceTokens';
  readonly operations: readonly TokenOperation[];
  /** Absent: all weights are in memory. */
  readonly buffer?: WeightBuffer;
}

/** Every lane does it on its own parts of the row. */
export type LaneStep = { readonly waits: readonly LaneWait[] } & (
  | TokenStep
  /** Expands weights for the operations of a later step into a buffer. */
  | { readonly parts: 'weights'; readonly operations: readonly TokenOperation[]; readonly buffer: WeightBuffer }
  | {
      readonly parts: 'queries' | 'sourceQueries';
      readonly operation: 'attention' | 'attentionBackward';
      readonly layer: number;
    }
  /** A lane computes some experts for the tokens of all lanes. */
  | { readonly parts: 'experts'; readonly operation: ExpertOperation; readonly layer: number }
  /** Parts of the vocabulary for all trained tokens, then trained tokens over all parts. */
  | { readonly parts: 'vocabulary' | 'targets' }
);

/**
 * Schedule of a forward pass. Lanes hold consecutive tokens, so they read keys from themselves and lower lanes,
 * and gradients of keys from themselves and higher ones. A lane waits only for its inputs: a barrier would wait
 * for the slowest lane, which changes all the time.
 *
 * Keys, values and their gradients have one buffer for even and one for odd layers unless they are kept, so a
 * lane may be one layer ahead of its readers.
 *
 * Experts are divided between the lanes, each with the tokens of all: a lane that computed its own tokens would expand
 * the weights of almost all experts for a few tokens each. So lanes wait for each other before and after experts. So they do
 * around states, which follow from each other token by token, so that heads are divided instead of tokens.
 */
export function forwardSchedule({ numLayers, isKept, hasExperts, hasStates }: PassLayers): LaneStep[] {
  const steps: LaneStep[] = [];
  const attention: number[] = [];
  /** Pushes the steps of a layer after attention, up to the last. */
  const output = (layer: number, parts: TokenStep['parts']): Pick<TokenStep, 'operations'> & { waits: LaneWait[] } => {
    const waits = hasStates(layer) ? onAll(attention[layer]!) : [];
    if (!hasExperts(layer)) return { operations: [{ kind: isKept(layer) ? 'savingOutput' : 'output', layer }], waits };
    const routed = steps.push({ parts, operations: [{ kind: 'routed', layer }], waits }) - 1;
    const operation = isKept(layer) ? 'savingExpert' : 'expert';
    const experts = steps.push({ parts: 'experts', operation, layer, waits: onAll(routed) }) - 1;
    return { operations: [{ kind: 'combined', layer }], waits: onAll(experts) };
  };
  for (let layer = 0; layer < numLayers; layer++) {
    const before = layer === 0 ? { operations: [], waits: [] } : output(layer - 1, 'tokens');
    const readers: LaneWait[] = layer < 2 || isKept(layer) ? [] : [{ lanes: 'higher', step: attention[layer - 2]! }];
    const tokens = steps.push({
      parts: 'tokens',
      operations: [...before.operations, { kind: 'attentionInput', layer }],
      waits: [...before.waits, ...readers],
    });
    const waits: LaneWait[] = hasStates(layer) ? onAll(tokens - 1) : [{ lanes: 'lower', step: tokens - 1 }];
    const parts = layer === numLayers - 1 ? 'sourceQueries' : 'queries';
    attention[layer] = steps.push({ parts, operation: 'attention', layer, waits }) - 1;
  }
  const end = output(numLayers - 1, 'sourceTokens');
  steps.push({ parts: 'sourceTokens', ...end });
  steps.push({ parts: 'vocabulary', waits: onAll(steps.length - 1) });
  steps.push({ parts: 'targets', waits: onAll(steps.length - 1) });
  return steps;
}

/** @param options.endsBehindAttention true if q, k and v of the first layer have no adapters */
export function backwardSchedule(
  { numLayers, isKept, hasExperts, hasStates }: PassLayers,
  options: { readonly endsBehindAttention: boolean },
): LaneStep[] {
  const steps: LaneStep[] = [];
  /** Merged into the first step of the layer below. */
  let pending: TokenOperation[] = [];
  let waits: LaneWait[] = [];
  /** Steps that read key gradients, by layer. */
  const reading: number[] = [];
  const last = numLayers - 1;
  for (let layer = last; layer >= 0; layer--) {
    const queries = layer === last ? 'sourceQueries' : 'queries';
    const tokens = layer === last ? 'sourceTokens' : 'tokens';
    if (!isKept(layer)) {
      const inputs = steps.push({
        parts: 'tokens',
        operations: [...pending, { kind: 'attentionInput', layer }],
        waits,
      });
      if (pending.length > 0) reading[layer + 1] = inputs - 1;
      waits = hasStates(layer) ? onAll(inputs - 1) : [{ lanes: 'lower', step: inputs - 1 }];
      const attention = steps.push({ parts: queries, operation: 'attention', layer, waits });
      pending = [{ kind: hasExperts(layer) ? 'recomputingRouted' : 'recomputingOutput', layer }];
      waits = hasStates(layer) ? onAll(attention - 1) : [];
    }
    const isAboveDone = pending[0]?.kind === 'attentionInputBackward';
    if (hasExperts(layer)) {
      // Experts read the gradients of all lanes.
      if (pending.length > 0) steps.push({ parts: tokens, operations: pending, waits });
      if (isAboveDone) reading[layer + 1] = steps.length - 1;
      const onLast = () => (steps.length === 0 ? [] : onAll(steps.length - 1));
      if (!isKept(layer)) steps.push({ parts: 'experts', operation: 'recomputingExpert', layer, waits: onLast() });
      steps.push({ parts: 'experts', operation: 'expertBackward', layer, waits: onLast() });
      steps.push({ parts: tokens, operations: [{ kind: 'routedBackward', layer }], waits: onLast() });
    } else {
      const outputs = steps.push({
        parts: tokens,
        operations: [...pending, { kind: 'outputBackward', layer }],
        waits,
      });
      if (isAboveDone) reading[layer + 1] = outputs - 1;
    }
    pending = [];
    waits = [];
    if (layer === 0 && options.endsBehindAttention) break;
    const twoAbove = reading[layer + 2];
    const outputs = hasStates(layer) ? onAll(steps.length - 1) : [];
    const attention = steps.push({
      parts: queries,
      operation: 'attentionBackward',
      layer,
      waits: [...outputs, ...(twoAbove === undefined ? [] : [{ lanes: 'lower' as const, step: twoAbove }])],
    });
    pending = [{ kind: 'attentionInputBackward', layer }];
    waits = hasStates(layer) ? onAll(attention - 1) : [{ lanes: 'higher', step: attention - 1 }];
  }
  if (pending.length > 0) steps.push({ parts: 'tokens', operations: pending, waits });
  return steps;
}

/**
 * The same schedule for weights that stay in their file. All lanes together expand the weights of a step of tokens
 * while the step before it is computed, so that a lane need not wait for the slowest one at each layer.
 */
export function withStreamedWeights(steps: readonly LaneStep[]): LaneStep[] {
  const result: LaneStep[] = [];
  /** New places of the steps of tokens in `result`, and of their expansions. */
  const used: number[] = [];
  const expanded: number[] = [];
  const users = steps.flatMap((step) => (isOfTokens(step) ? withOneBlockEach(step) : []));
  const bufferOf = (user: number): WeightBuffer => (user % 2 === 0 ? 0 : 1);
  const expandNext = () => {
    const user = users[expanded.length];
    if (user === undefined) return;
    const buffer = bufferOf(expanded.length);
    const lastReader = used[expanded.length - 2];
    const waits = lastReader === undefined ? [] : onAll(lastReader);
    expanded.push(result.push({ parts: 'weights', operations: user.operations, buffer, waits }) - 1);
  };
  /** Last new place by old place. */
  const moved: number[] = [];
  expandNext();
  for (const step of steps) {
    const waits = step.waits.map(({ lanes, step: before }) => ({ lanes, step: moved[before]! }));
    if (!isOfTokens(step)) {
      moved.push(result.push({ ...step, waits }) - 1);
      continue;
    }
    for (const [index, part] of withOneBlockEach(step).entries()) {
      const buffer = bufferOf(used.length);
      const all = [...(index === 0 ? waits : []), ...onAll(expanded[used.length]!)];
      used.push(result.push({ ...part, buffer, waits: all }) - 1);
      expandNext();
    }
    moved.push(used.at(-1)!);
  }
  return result;
}

const isOfTokens = (step: LaneStep): step is Extract<LaneStep, TokenStep> =>
  step.parts === 'tokens' || step.parts === 'sourceTokens';

/** Splits a step that reads the same matrices of two blocks: q, k and v of one are backward, of the other again. */
function withOneBlockEach(step: Extract<LaneStep, TokenStep>): Extract<LaneStep, TokenStep>[] {
  const [first, ...rest] = step.operations;
  const splits = first?.kind === 'attentionInputBackward' && rest.some(({ kind }) => kind === 'attentionInput');
  return splits
    ? [
        { ...step, operations: [first] },
        { ...step, operations: rest },
      ]
    : [step];
}

const onAll = (step: number): LaneWait[] => [
  { lanes: 'lower', step },
  { lanes: 'higher', step },
];

import type { TensorPlace } from '@trainyard/native';
import {
  type Architecture,
  DeltaHead,
  deltaSizes,
  layerKind,
  type LayerKind,
  type LoraConfig,
  MatrixRows,
  Scratch,
  type Tensors,
} from '@trainyard/transformer';
import type { BlockIntermediates, ExpertBuffers, GradientBuffers } from './activations.ts';
import type { AdapterGradients, BlockParameters } from './block-adapter.ts';
import type { Bf16Places } from './bf16-matrices.ts';
import { laneProducts, type LaneProducts } from './bf16-products.ts';
import { BlockCompute } from './block-compute.ts';
import { ConvolutionCompute, MixerInput } from './convolution-compute.ts';
import { DeltaRows } from '../delta-net/delta-rows.ts';
import { DeltaScratch } from '../delta-net/delta-scratch.ts';
import { ExpertCompute } from './expert-compute.ts';
import type { GraphName, RunGraph } from './block-sessions.ts';
import { ModelSessions } from './block-sessions.ts';
import type { HeadBuffers } from './head-compute.ts';
import { HeadCompute } from './head-compute.ts';
import type { LaneStep, TokenOperation } from './lane-schedule.ts';
import type { AttentionBlock, LaneShare } from './row-plan.ts';
import { attentionBlock } from './row-plan.ts';
import { bufferFeeds, expansionPieces, type StreamedBlocks, type WeightBuffers } from './streamed-blocks.ts';
import { equalPieces, rowsOf, type TokenRange } from '../model/token-range.ts';

/** Large arrays are shared memory. */
export interface LaneSetup {
  readonly architecture: Architecture;
  readonly lora: LoraConfig;
  /** Threads per graph run. */
  readonly numThreads: number;
  readonly blocks: readonly BlockParameters[];
  /** [H] */
  readonly outputNorm: Float32Array;
  /** [V, H] */
  readonly vocabulary: Float32Array | TensorPlace;
  /** The blocks' matrices in bf16, and no others; null: single precision in `blocks`. */
  readonly bf16: Bf16Places | null;
  /** The blocks' matrices in the model file; null: in `blocks`, or in bf16. */
  readonly streamed: StreamedBlocks | null;
}

/** Shared memory, except for the share. */
export interface LanePass {
  readonly lane: number;
  readonly numLanes: number;
  readonly share: LaneShare;
  /** [T, H] by layer, then the final hidden state. */
  readonly inputs: readonly Float32Array[];
  readonly intermediates: readonly BlockIntermediates[];
  readonly head: HeadBuffers;
  /** Null: no layer has experts. */
  readonly experts: ExpertBuffers | null;
  /** [T, K] by layer, used instead of the router's choice; null: it chooses. */
  readonly givenExperts: readonly (Int32Array | null)[] | null;
  /** Null unless weights are streamed. */
  readonly weights: WeightBuffers | null;
  /** Null if no backward follows. */
  readonly backward: { readonly gradients: GradientBuffers; readonly adapters: readonly AdapterGradients[] } | null;
}

/** Permission to compute. */
export interface LaneTurns {
  /** Resolves when the lanes that the step waits for are far enough. */
  ready(step: LaneStep): Promise<void>;
  /** Runs once the cores are available. */
  piece(work: () => void): Promise<void>;
  ended(): void;
}

/** Wall time, and the floating-point operations of matrix products. */
export interface GraphTiming {
  readonly graph: GraphName;
  readonly milliseconds: number;
  readonly flops: number;
}

type BlocksByKind = Readonly<Record<LayerKind, readonly AttentionBlock[]>>;
const NO_BLOCKS: BlocksByKind = { full: [], windowed: [], unrotated: [] };

const attentionBlocks = ({ full, windowed }: LaneShare['queries']): BlocksByKind => {
  const blocks = full.map(attentionBlock);
  const ofWindows = windowed === full ? blocks : windowed.map(attentionBlock);
  return { full: blocks, windowed: ofWindows, unrotated: blocks };
};

/** Threads compute a pass in parallel, each on its own tokens and queries. */
export class LaneCompute {
  readonly #sessions: ModelSessions;
  readonly #scratch = new Scratch();
  readonly #blocks: readonly BlockCompute[];
  /** Null for dense blocks. */
  readonly #experts: readonly (ExpertCompute | null)[];
  /** Null for blocks with attention. */
  readonly #mixerInputs: readonly (MixerInput | null)[];
  /** Null for other blocks. */
  readonly #convolutions: readonly (ConvolutionCompute | null)[];
  readonly #deltas: readonly (DeltaRows | null)[];
  readonly #architecture: Architecture;
  readonly #head: HeadCompute;
  /** Kinds of the layers. */
  readonly #kinds: readonly LayerKind[];
  /** Null: the graphs multiply. */
  readonly #products: LaneProducts | null;
  readonly #streamed: StreamedBlocks | null;
  /** Weights of the current step, if streamed. */
  #weights: Tensors = {};
  #pass: LanePass | null = null;
  #queries: Readonly<Record<'queries' | 'sourceQueries', BlocksByKind>> = {
    queries: NO_BLOCKS,
    sourceQueries: NO_BLOCKS,
  };
  #timings: GraphTiming[] = [];

  constructor(setup: LaneSetup) {
    const { architecture, lora, numThreads, bf16, outputNorm, streamed } = setup;
    const { hiddenSize } = architecture;
    const vocabulary = new MatrixRows(setup.vocabulary, hiddenSize);
    this.#products = bf16 === null ? null : laneProducts(bf16, vocabulary, numThreads);
    this.#streamed = streamed;
    this.#sessions = new ModelSessions(architecture, lora, numThreads, bf16 === null ? 'inside' : 'outside');
    const runtime = { run: this.#run, scratch: this.#scratch };
    this.#kinds = setup.blocks.map((_, layer) => layerKind(architecture, layer));
    this.#blocks = setup.blocks.map((parameters, layer) => {
      const products = this.#products?.blocks[layer] ?? null;
      return new BlockCompute(architecture, parameters, products, runtime);
    });
    this.#architecture = architecture;
    this.#mixerInputs = setup.blocks.map((parameters, layer) =>
      parameters.convolution === null && parameters.deltaNet === null
        ? null
        : new MixerInput(architecture, parameters, this.#products?.blocks[layer] ?? null, runtime),
    );
    this.#convolutions = setup.blocks.map(({ convolution }, layer) =>
      convolution === null
        ? null
        : new ConvolutionCompute(architecture, convolution, this.#mixerInputs[layer]!, runtime),
    );
    const deltaScratch = architecture.deltaNet === null ? null : new DeltaScratch(architecture.deltaNet);
    this.#deltas = setup.blocks.map(({ deltaNet }) =>
      deltaNet === null
        ? null
        : new DeltaRows(new DeltaHead(architecture.deltaNet!, deltaNet, architecture.rmsEpsilon), deltaScratch!),
    );
    this.#experts = setup.blocks.map((parameters) =>
      parameters.experts === null
        ? null
        : new ExpertCompute(architecture, { ...parameters.experts, output: parameters.output }, runtime),
    );
    this.#head = new HeadCompute(architecture, { outputNorm, vocabulary }, this.#products?.vocabulary ?? null, runtime);
  }

  begin(pass: LanePass): void {
    const { queries, sourceQueries } = pass.share;
    this.#pass = pass;
    for (const experts of this.#experts) experts?.begin();
    const blocks = attentionBlocks(queries);
    this.#queries = {
      queries: blocks,
      sourceQueries: sourceQueries === queries ? blocks : attentionBlocks(sourceQueries),
    };
  }

  async run(steps: readonly LaneStep[], turns: LaneTurns): Promise<readonly GraphTiming[]> {
    this.#timings = [];
    for (const step of steps) {
      await turns.ready(step);
      if ('operations' in step && step.parts !== 'weights' && step.buffer !== undefined)
        this.#weights = bufferFeeds(this.#streamed!, this.#pass!.weights![step.buffer]);
      // Experts have the names of a dense feed-forward.
      else if (step.parts === 'experts') this.#weights = {};
      for (const work of this.#pieces(step)) await turns.piece(work);
      turns.ended();
    }
    return this.#timings;
  }

  /** No run may follow. */
  close(): void {
    this.#pass = null;
    this.#scratch.clear();
    this.#sessions.close();
    this.#products?.close();
  }

  /** Pieces between which the cores may change hands. */
  #pieces(step: LaneStep): (() => void)[] {
    const pass = this.#pass!;
    const { share, head } = pass;
    const hidden = pass.inputs.at(-1)!;
    switch (step.parts) {
      case 'weights':
        return expansionPieces(this.#streamed!, step.operations, pass.weights![step.buffer], pass.lane);
      case 'tokens':
      case 'sourceTokens':
        return share[step.parts].flatMap((range) =>
          step.operations.map((operation) => () => this.#onTokens(operation, range, pass)),
        );
      case 'queries':
      case 'sourceQueries':
        if (this.#convolutions[step.layer] !== null) return this.#onConvolution(step, pass);
        if (this.#deltas[step.layer] !== null) return this.#onStates(step, pass);
        return this.#onQueries(step, this.#queries[step.parts][this.#kinds[step.layer]!], pass);
      case 'experts':
        return this.#onExperts(step, pass);
      case 'vocabulary': {
        const partial = head.partial[pass.lane]!;
        return [
          () => this.#head.begin(partial),
          ...share.vocabulary.map((part) => () => this.#head.addPart(part, hidden, head, partial)),
        ];
      }
      case 'targets':
        return share.targets.map((targets) => () => this.#head.finish(targets, hidden, head));
      default:
        return step satisfies never;
    }
  }

  #onTokens({ kind, layer }: TokenOperation, range: TokenRange, pass: LanePass): void {
    const block = this.#blocks[layer]!;
    const own = pass.intermediates[layer]!;
    const x = pass.inputs[layer]!;
    const mixerInput = this.#mixerInputs[layer]!;
    const convolution = this.#convolutions[layer]!;
    const tables = () => pass.share.tables[this.#kinds[layer]!];
    switch (kind) {
      case 'attentionInput':
        if (mixerInput !== null) return mixerInput.forward(range, x, own);
        return block.attentionInput(range, tables(), x, own);
      case 'output':
      case 'savingOutput':
      case 'recomputingOutput':
        return block.output(kind, range, own, { x, y: pass.inputs[layer + 1]! });
      case 'outputBackward':
        return block.outputBackward(range, own, pass.backward!.gradients, pass.backward!.adapters[layer]!);
      case 'attentionInputBackward': {
        const { gradients, adapters } = pass.backward!;
        const isFirst = layer === 0;
        if (convolution !== null) {
          const from = { own, x, isFirst, sums: gradients.convolutions![layer % 2]!, gradients };
          return convolution.inputBackward(range, pass.share.tree!, from, adapters[layer]!);
        }
        if (mixerInput !== null) {
          const dBcx = rowsOf(gradients.deltaProducts!, deltaSizes(this.#architecture.deltaNet!).width, range);
          return mixerInput.backward(range, { x, isFirst, dBcx }, gradients, adapters[layer]!);
        }
        // Only queries of this lane and of higher ones see its keys.
        const keys = gradients.keys[layer % 2]!.slice(pass.lane);
        const inputs = { isFirst, tables: tables(), x, keys };
        return block.attentionInputBackward(range, inputs, gradients, adapters[layer]!);
      }
      case 'routed': {
        const experts = this.#experts[layer]!;
        experts.routed(range, own, pass.experts!, { x, y: pass.inputs[layer + 1]! });
        return experts.choose(range, own.routing!, pass.givenExperts?.[layer] ?? null);
      }
      case 'recomputingRouted':
        this.#experts[layer]!.routed(range, own, pass.experts!, { x, y: null });
        return this.#experts[layer]!.share(range, own.routing!);
      case 'combined':
        return this.#experts[layer]!.combined(range, own, pass.experts!, pass.inputs[layer + 1]!);
      case 'routedBackward': {
        const { gradients, adapters } = pass.backward!;
        const feeds = this.#experts[layer]!.routedBackwardFeeds(range, own, pass.experts!);
        return block.routedBackward(range, { own, feeds }, gradients, adapters[layer]!);
      }
      default:
        return kind satisfies never;
    }
  }

  #onQueries(
    { operation, layer }: Extract<LaneStep, { operation: unknown }>,
    blocks: readonly AttentionBlock[],
    pass: LanePass,
  ): (() => void)[] {
    const block = this.#blocks[layer]!;
    const own = pass.intermediates[layer]!;
    if (operation === 'attention') return blocks.map((queries) => () => block.attention(queries, own));
    const { gradients } = pass.backward!;
    const into = gradients.keys[layer % 2]![pass.lane]!;
    const clear = () => block.clearKeyGradients(pass.share.range.end, into);
    return [clear, ...blocks.map((queries) => () => block.attentionBackward(queries, own, gradients, into))];
  }

  /** In the place of attention. */
  #onConvolution(
    { operation, layer, parts }: Extract<LaneStep, { parts: 'queries' | 'sourceQueries' }>,
    { share, intermediates, backward }: LanePass,
  ): (() => void)[] {
    const convolution = this.#convolutions[layer]!;
    const own = intermediates[layer]!;
    const tree = share.tree!;
    return share[parts === 'queries' ? 'tokens' : 'sourceTokens'].map((range) => () => {
      if (operation === 'attention') return convolution.output(range, tree, own);
      const { dO, dq, convolutions } = backward!.gradients;
      return convolution.outputBackward(range, tree, own, { dO, dq, sums: convolutions![layer % 2]! });
    });
  }

  /** In the place of attention: some heads of a gated delta net, for the tokens of all lanes. */
  #onStates(
    { operation, layer }: Extract<LaneStep, { parts: 'queries' | 'sourceQueries' }>,
    { share, lane, numLanes, intermediates, backward }: LanePass,
  ): (() => void)[] {
    const deltas = this.#deltas[layer]!;
    const { bcx, o } = intermediates[layer]!;
    const row = { parents: share.tree!.parents, products: bcx };
    const { numKeyHeads } = this.#architecture.deltaNet!;
    const { start, end } = equalPieces(numKeyHeads, numLanes)[lane]!;
    return Array.from({ length: end - start }, (_, i) => () => {
      if (operation === 'attention') return deltas.forward(start + i, row, o);
      const { deltaOutputs, deltaProducts } = backward!.gradients;
      return deltas.backward(start + i, row, deltaOutputs!, deltaProducts!);
    });
  }

  #onExperts({ operation, layer }: Extract<LaneStep, { parts: 'experts' }>, pass: LanePass): (() => void)[] {
    const experts = this.#experts[layer]!;
    const own = pass.intermediates[layer]!;
    const share = experts.shareOf(pass.lane, pass.numLanes, own.routing!);
    return share.map((expert) => () => {
      if (operation === 'expertBackward') experts.backward(expert, own, pass.experts!, pass.backward!.gradients.dy);
      else experts.forward(operation, expert, own, pass.experts!);
    });
  }

  readonly #run: RunGraph = (graph, feeds, results, outside) => {
    const started = performance.now();
    const { outputs, flops } = this.#sessions.run(graph, { ...feeds, ...this.#weights }, results, outside);
    this.#timings.push({ graph, milliseconds: performance.now() - started, flops });
    return outputs;
  };
}

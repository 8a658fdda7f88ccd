import assert from 'node:assert/strict';
import {
  type Architecture,
  BlockGraph,
  CutSession,
  GraphSession,
  headGraph,
  type LoraConfig,
  type OutsideProducts,
  type ProductLayout,
  type Scratch,
  type Tensors,
  type Value,
} from '@trainyard/transformer';

/** `saving` also outputs the inputs of backward. */
export type GraphName =
  | 'attentionInput'
  | 'attention'
  | 'output'
  | 'savingOutput'
  | 'recomputingOutput'
  | 'routed'
  | 'recomputingRouted'
  | 'routedBackward'
  | 'expert'
  | 'savingExpert'
  | 'recomputingExpert'
  | 'expertBackward'
  | 'head'
  | 'directionHead'
  | 'entropyHead'
  | 'replayHead'
  | 'replayDirectionHead'
  | 'replayEntropyHead'
  | 'outputBackward'
  | 'attentionBackward'
  | 'attentionInputBackward'
  | 'firstAttentionInputBackward'
  | 'convolutionInput'
  | 'convolutionOutput'
  | 'savingConvolutionOutput'
  | 'recomputingConvolutionOutput'
  | 'convolutionOutputBackward'
  | 'convolutionInputBackward'
  | 'firstConvolutionInputBackward';

/**
 * Outputs that are not among `results` are allocated; with products outside, the next run overwrites them.
 *
 * @param outside products with frozen weights, if computed outside the graphs
 */
export type RunGraph = (graph: GraphName, feeds: Tensors, results: Tensors, outside: OutsideProducts | null) => Tensors;

/** Parts of a lane that its blocks and its head share. */
export interface LaneRuntime {
  readonly run: RunGraph;
  readonly scratch: Scratch;
}

interface GraphRun {
  readonly outputs: Tensors;
  /** Only matrix products. */
  readonly flops: number;
}

/** Graphs without frozen weights. */
const ATTENTION: ReadonlySet<GraphName> = new Set(['attention', 'attentionBackward']);

/** Graphs whose saved values are inputs. */
const READING_SAVED: ReadonlySet<GraphName> = new Set([
  'outputBackward',
  'convolutionOutputBackward',
  'routedBackward',
  'expertBackward',
]);

/** Sessions shared by all layers, because weights are inputs. Created when first needed. */
export class ModelSessions {
  readonly #graphs: Record<GraphName, () => Readonly<Record<string, Value>>>;
  readonly #numThreads: number;
  readonly #products: ProductLayout;
  readonly #sessions = new Map<GraphName, GraphSession | CutSession>();

  constructor(architecture: Architecture, lora: LoraConfig, numThreads: number, products: ProductLayout) {
    const graph = new BlockGraph(architecture, lora, products);
    const head = (direction: boolean, entropy: boolean, replay: boolean) =>
      headGraph(architecture, { direction, entropy, replay, products });
    this.#numThreads = numThreads;
    this.#products = products;
    this.#graphs = {
      attentionInput: () => graph.attentionInput(),
      attention: () => graph.attention(),
      output: () => ({ y: graph.output().y }),
      savingOutput: () => graph.output(),
      recomputingOutput: () => withoutY(graph.output()),
      routed: () => graph.routed(),
      recomputingRouted: () => {
        const { x2, h, scores } = graph.routed();
        return { x2: x2!, h: h!, scores: scores! };
      },
      routedBackward: () => graph.routedBackward(),
      expert: () => ({ y: graph.expert().y }),
      savingExpert: () => graph.expert(),
      recomputingExpert: () => {
        const { gate, up } = graph.expert();
        return { gate, up };
      },
      expertBackward: () => graph.expertBackward(),
      head: () => head(false, false, false),
      directionHead: () => head(true, false, false),
      entropyHead: () => head(true, true, false),
      replayHead: () => head(false, false, true),
      replayDirectionHead: () => head(true, false, true),
      replayEntropyHead: () => head(true, true, true),
      outputBackward: () => graph.outputBackward(),
      attentionBackward: () => graph.attentionBackward(),
      attentionInputBackward: () => graph.attentionInputBackward(true),
      firstAttentionInputBackward: () => graph.attentionInputBackward(false),
      convolutionInput: () => graph.convolutionInput(),
      convolutionOutput: () => ({ y: graph.output('convOut').y }),
      savingConvolutionOutput: () => graph.output('convOut'),
      recomputingConvolutionOutput: () => withoutY(graph.output('convOut')),
      convolutionOutputBackward: () => graph.outputBackward('convOut'),
      convolutionInputBackward: () => graph.convolutionInputBackward(true),
      firstConvolutionInputBackward: () => graph.convolutionInputBackward(false),
    };
  }

  run(name: GraphName, feeds: Tensors, results: Tensors, outside: OutsideProducts | null): GraphRun {
    const session = this.#get(name);
    if (session instanceof GraphSession) return { outputs: session.run(feeds, results), flops: session.flops(feeds) };
    assert(outside !== null, `${name} has products that are computed outside`);
    return { outputs: session.run(feeds, results, outside), flops: session.flopsOfRun };
  }

  #get(name: GraphName): GraphSession | CutSession {
    let session = this.#sessions.get(name);
    if (session === undefined) {
      const hasOutside = this.#products === 'outside' && !ATTENTION.has(name);
      session = new (hasOutside ? CutSession : GraphSession)(this.#graphs[name](), {
        numThreads: this.#numThreads,
        savedAsInputs: READING_SAVED.has(name),
      });
      this.#sessions.set(name, session);
    }
    return session;
  }

  /** No run may follow. */
  close(): void {
    for (const session of this.#sessions.values()) session.close();
    this.#sessions.clear();
  }
}

const withoutY = ({ x2, gate, up }: Readonly<Record<'x2' | 'gate' | 'up', Value>>) => ({ x2, gate, up });

import { addsPlainOutputs, BlockGraph } from '@trainyard/transformer';
import { closedWith, type OnnxTensor } from '@trainyard/native';
import type { Architecture, Outputs } from '@trainyard/transformer';
import { ConstantGraph, type Feeds, vector } from './constant-graph.ts';

/**
 * Expressions of a block between its products, on one thread, as in {@link DecoderGraphs}. One set serves all
 * layers.
 */
export class BetweenProducts {
  readonly #norm: ConstantGraph;
  /** Null if outputs are added without a norm, a factor or a bias. */
  readonly #outputSums: Readonly<Record<'attention' | 'feedForward', ConstantGraph>> | null;
  readonly rotation: ConstantGraph;
  readonly activation: ConstantGraph;
  /** Null without an output gate. */
  readonly outputGate: ConstantGraph | null;
  /** The same with the width of an expert. */
  readonly expertActivation: ConstantGraph;
  readonly #opened: DisposableStack;

  constructor(architecture: Architecture) {
    const graph = new BlockGraph(architecture, 'outside');
    using opened = new DisposableStack();
    const open = (outputs: Outputs) => closedWith(opened, new ConstantGraph(outputs, {}, 1));
    const { experts, feedForwardSize, hasSinks } = architecture;
    this.#norm = open(graph.normalised());
    if (addsPlainOutputs(architecture)) {
      this.#outputSums = null;
    } else {
      const feedForward = open(graph.outputSum('feedForward'));
      // Only attention may have a bias.
      const attention = hasSinks ? open(graph.outputSum('attention')) : feedForward;
      this.#outputSums = { attention, feedForward };
    }
    this.rotation = open(graph.rotated());
    this.activation = open(graph.activated());
    this.outputGate = architecture.hasOutputGate ? open(graph.gatedOutput()) : null;
    const isOther = experts !== null && experts.feedForwardSize !== feedForwardSize;
    this.expertActivation = isOther ? open(graph.activated(experts.feedForwardSize)) : this.activation;
    this.#opened = opened.move();
  }

  /** @param x [rows, H] @param weights [H] @param h [rows, H], written */
  normalise(x: OnnxTensor, weights: Float32Array, h: OnnxTensor): void {
    this.#norm.run({ x, norm: vector(weights) }, { h });
  }

  /** @param rows x and y [rows, H]; sum [rows, H] = x + scale · norm(y + bias), written @param vectors norm and bias */
  addOutput(
    of: 'attention' | 'feedForward',
    { x, y, sum }: Readonly<Record<'x' | 'y' | 'sum', OnnxTensor>>,
    vectors: Feeds,
  ): void {
    this.#outputSums![of].run({ x, y, ...vectors }, { sum });
  }

  close(): void {
    this.#opened.dispose();
  }
}

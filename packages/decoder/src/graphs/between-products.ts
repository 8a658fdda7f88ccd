import { BlockGraph } from '@trainyard/transformer';
import { closedWith, type OnnxTensor } from '@trainyard/native';
import type { Architecture, Outputs } from '@trainyard/transformer';
import { ConstantGraph, vector } from './constant-graph.ts';

/**
 * Expressions of a block between its products, on one thread, as in {@link DecoderGraphs}. One set serves all
 * layers.
 */
export class BetweenProducts {
  readonly #norm: ConstantGraph;
  /** Null without post-norms. */
  readonly #normalisedSum: ConstantGraph | null;
  readonly rotation: ConstantGraph;
  readonly activation: ConstantGraph;
  readonly #opened: DisposableStack;

  constructor(architecture: Architecture) {
    const graph = new BlockGraph(architecture, 'outside');
    using opened = new DisposableStack();
    const open = (outputs: Outputs) => closedWith(opened, new ConstantGraph(outputs, {}, 1));
    this.#norm = open(graph.normalised());
    this.#normalisedSum = architecture.hasPostNorms ? open(graph.normalisedSum()) : null;
    this.rotation = open(graph.rotated());
    this.activation = open(graph.activated());
    this.#opened = opened.move();
  }

  /** @param x [rows, H] @param weights [H] @param h [rows, H], written */
  normalise(x: OnnxTensor, weights: Float32Array, h: OnnxTensor): void {
    this.#norm.run({ x, norm: vector(weights) }, { h });
  }

  /** @param rows x and y [rows, H]; sum [rows, H] = x + norm(y), written */
  addNormalised({ x, y, sum }: Readonly<Record<'x' | 'y' | 'sum', OnnxTensor>>, weights: Float32Array): void {
    this.#normalisedSum!.run({ x, y, norm: vector(weights) }, { sum });
  }

  close(): void {
    this.#opened.dispose();
  }
}

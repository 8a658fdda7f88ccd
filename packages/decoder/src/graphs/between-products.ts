import { BlockGraph } from '@trainyard/transformer';
import type { Architecture, Outputs } from '@trainyard/transformer';
import { ConstantGraph } from './constant-graph.ts';

/** A block without its products, on one thread: the expressions of {@link DecoderGraphs}. One set serves all layers. */
export class BetweenProducts {
  readonly norm: ConstantGraph;
  readonly rotation: ConstantGraph;
  readonly activation: ConstantGraph;

  constructor(architecture: Architecture) {
    const graph = new BlockGraph(architecture, 'outside');
    const open = (outputs: Outputs) => new ConstantGraph(outputs, {}, 1);
    this.norm = open(graph.normalised());
    this.rotation = open(graph.rotated());
    this.activation = open(graph.activated());
  }

  close(): void {
    for (const graph of [this.norm, this.rotation, this.activation]) graph.close();
  }
}

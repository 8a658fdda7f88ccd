import { BlockGraph, INPUT_NAMES } from '@trainyard/transformer';
import type { Architecture, InputName } from '@trainyard/transformer';
import { ConstantGraph } from './constant-graph.ts';

/** Graphs of a few rows between the products of a block: the expressions of the whole graphs, on one thread. One set serves all layers. */
export class FewRowGraphs {
  readonly norm: ConstantGraph;
  readonly rotation: ConstantGraph;
  readonly activation: ConstantGraph;
  /** First values of the sums, where rows have adapters. */
  readonly adapted: Readonly<Record<InputName, ConstantGraph>>;

  constructor(architecture: Architecture) {
    const graph = new BlockGraph(architecture, 'stacked');
    const open = (outputs: ReturnType<BlockGraph['normalised']>) => new ConstantGraph(outputs, {}, 1);
    this.norm = open(graph.normalised());
    this.rotation = open(graph.rotated());
    this.activation = open(graph.activated());
    const adapted = INPUT_NAMES.map((name) => [name, open(graph.adapted(name))]);
    this.adapted = Object.fromEntries(adapted) as Record<InputName, ConstantGraph>;
  }

  close(): void {
    for (const graph of [this.norm, this.rotation, this.activation, ...Object.values(this.adapted)]) graph.close();
  }
}
